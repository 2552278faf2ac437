"""How commands speak: errors as sentences with exit codes, results in words or as JSON."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from surelabel.errors import SurelabelError

console = Console(stderr=True, highlight=False, markup=False)
INTERRUPTED = 130
LABEL_SECONDS = 5.0
"""What a label takes a person, unless they say otherwise."""

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Page = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


@contextlib.contextmanager
def sentences(path: Path | None = None) -> Iterator[None]:
    """Errors as sentences with their exit codes; ctrl-C with the way to go on."""
    try:
        yield
    except SurelabelError as error:
        typer.echo(f"surelabel: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.echo(f"Stopped.{_hint(path)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"surelabel: {what}.{_hint(path)}", err=True)
        raise typer.Exit(1) from None


def _hint(path: Path | None) -> str:
    if path is None or not (path / "run.json").exists():
        return ""
    return f" Nothing is lost: surelabel resume {shlex.quote(str(path))} goes on."


def tell(values: dict[str, Any], sentence: str, *, quiet: bool, as_json: bool) -> None:
    """A result as JSON on standard output, or in words on the console."""
    if as_json:
        print_json(values)
    elif not quiet:
        console.print(sentence, soft_wrap=True)


def print_json(values: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(values, default=str, ensure_ascii=False))


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("surelabel"))
        raise typer.Exit


def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """What stands before any command."""
