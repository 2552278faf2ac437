"""Draws ``docs/demo.svg``, the terminal after a real run of the demo: ``make docs``."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from surelabel.cli.output import print_demo
from surelabel.cli.progress import rounds_table
from surelabel.workflows.demo import run_demo
from surelabel.workflows.label import Listeners

# Rich's own frame without its web font: the picture must not fetch anything.
FORMAT = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    target = Path(__file__).resolve().with_name("demo.svg")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        result = run_demo(Path("runs/demo"), Listeners())
        shown = Console(
            record=True,
            width=108,
            file=io.StringIO(),
            force_terminal=True,
            highlight=False,
            markup=False,
        )
        shown.print("$ surelabel demo", style="bold")
        shown.print(rounds_table(list(result.run.rounds)))
        print_demo(shown, result)
        target.write_text(
            shown.export_svg(title="surelabel", theme=MONOKAI, code_format=FORMAT),
            encoding="utf-8",
        )
        os.chdir(target.parent)


if __name__ == "__main__":
    main()
