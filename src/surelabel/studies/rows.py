"""What a terminal shows while one row of a study is under way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surelabel.telling import console

if TYPE_CHECKING:
    from surelabel.session import Listeners


@contextlib.contextmanager
def row_listeners(name: str, *, silent: bool) -> Iterator[Listeners]:
    """The listeners of one row, under its name."""
    from surelabel.console import reporting
    from surelabel.session import Listeners

    if not silent:
        console.print(f"\n{name}", style="bold")
    try:
        with reporting(console, quiet=silent) as reporter:
            yield Listeners(reporter.on_progress, reporter.on_event)
    except KeyboardInterrupt:
        console.print("Nothing is lost: the same command goes on from here.")
        raise
