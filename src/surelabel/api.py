"""The functions of the public API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surelabel import session
from surelabel.config import Config
from surelabel.run import Run
from surelabel.session import SILENT, Listeners


def label(
    images: Any,
    labels: Any = None,
    out: str | Path = "runs/run",
    *,
    config: Config | None = None,
    listeners: Listeners = SILENT,
    **options: Any,
) -> Run:
    """Label ``images`` from a few ``labels``; the run folder is ``out``.

    ``images`` is a folder, a table, an IDX or NumPy file or an array; ``labels`` a table, a file
    or an array with -1 for unlabelled. ``options`` are those of ``Config``.
    """
    settings = config or Config()
    if options:
        plain = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
        settings = Config.from_mapping({**plain, **options})
    folder = session.start(images, labels, Path(out), settings, listeners)
    return Run(folder.path)


def resume(path: str | Path, listeners: Listeners = SILENT) -> Run:
    """Go on with the run at ``path`` after a crash, or after something was added to it."""
    return Run(path).resume(listeners)


def open_run(path: str | Path) -> Run:
    """The run at ``path``, to look at."""
    return Run(path)
