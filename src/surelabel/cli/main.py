"""The command line: every command parses its options, calls the API and prints the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path
from platform import python_version
from typing import Annotated

import typer

from surelabel.cli.care import backup, doctor
from surelabel.cli.guarantees import agreement, audit, effort, forecast
from surelabel.cli.labeling import adapt, add, demo, draw, label, resume
from surelabel.cli.options import with_config_options
from surelabel.cli.output import INTERRUPTED
from surelabel.cli.results import (
    compare,
    export,
    export_model,
    label_errors,
    predict,
    report,
    show,
)
from surelabel.cli.review import review, start

_PLUGINS = "surelabel.commands"
"""The entry points through which other packages add groups of commands."""


def run(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    show_all = "--help-all" in argv
    arguments = ["--help" if a == "--help-all" else a for a in argv]
    app = build_app(show_all=show_all)
    if arguments and _is_target(arguments[0], app):
        arguments = ["start", *arguments]
    try:
        app(args=arguments, prog_name="surelabel")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _is_target(argument: str, app: typer.Typer) -> bool:
    """Whether ``argument`` is a folder or file, as in ``surelabel photos/``, and no command."""
    group = typer.main.get_group(app)
    return argument not in group.commands and Path(argument).exists()


def build_app(*, show_all: bool = False) -> typer.Typer:
    """All commands, in the order in which people need them."""
    app = typer.Typer(
        help="Label an image dataset from a few labels, with an uncertainty for each label.",
        no_args_is_help=True,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    label_command = with_config_options(label, show_all=show_all)
    panels: dict[str, tuple[Callable[..., None], ...]] = {
        "Label a collection": (start, draw, label_command, review, resume, add),
        "See what a run did": (show, report, compare, label_errors),
        "Know how wrong it can be": (effort, audit, forecast, agreement),
        "Use the result": (export, export_model, predict, adapt),
        "Keep it safe": (doctor, backup),
        "Try it": (demo,),
    }
    for panel, commands in panels.items():
        for command in commands:
            app.command(rich_help_panel=panel)(command)
    for plugin in entry_points(group=_PLUGINS):
        app.add_typer(plugin.load()(), name=plugin.name, rich_help_panel="Studies")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from surelabel.engines.device import choose_device

        torch = f"torch {version('torch')} on {choose_device('auto')}"
        typer.echo(f"surelabel {version('surelabel')}, Python {python_version()}, {torch}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the versions and exit."
        ),
    ] = False,
) -> None:
    """Options that come before any command."""
