"""Options and arguments: those that commands share, and those made from ``Config``."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from surelabel.config.choices import TrackerName
from surelabel.config.fields import Group, is_share, percent_hint, read_share, read_toml, share_of
from surelabel.config.settings import Config, options

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
ImagesPath = Annotated[
    str,
    typer.Argument(
        metavar="IMAGES",
        help="A folder, a table (CSV, Parquet, Excel), shards (tar, Parquet), an IDX or NumPy "
        "file; or an address, such as s3://bucket/photos.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Track = Annotated[
    TrackerName | None,
    typer.Option(help="Also log each round to this tool; needs the extra of the same name."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or folder.")]


def share(text: str) -> float:
    """A share from the command line, ``0.02`` or ``2%``."""
    try:
        value = share_of(text)
    except ValueError:
        raise typer.BadParameter(f"'{text}' is not a share such as 0.02 or 2%.") from None
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text} is not between 0 and 1.{percent_hint(value)}")
    return value


def with_config_options(command: Callable[..., None], *, show_all: bool) -> Callable[..., None]:
    """``command`` with an option per setting of ``Config`` in place of its ``**settings``.

    The help shows the common ones only, unless ``show_all``; all of them work.
    """
    own = inspect.signature(command, eval_str=True)
    fixed = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    made = [_parameter(spec, show_all=show_all) for spec in options()]
    signature = own.replace(parameters=[*fixed, *(p.replace(kind=p.KEYWORD_ONLY) for p in made)])

    def call(**arguments: object) -> None:
        command(**arguments)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = command.__doc__
    call.__name__ = command.__name__
    return call


def config_from(settings: Mapping[str, object], file: Path | None) -> Config:
    """The settings in ``file``, overruled by those from the command line (None: not given)."""
    base = read_toml(file) if file is not None else {}
    given = {name: value for name, value in settings.items() if value is not None}
    for name in (spec.name for spec in options() if is_share(spec)):
        if name in given:
            given[name] = read_share(name, str(given[name]), "options")
    return Config.from_mapping({**base, **given}, where=str(file) if file else "options")


def _parameter(spec: dataclasses.Field[Any], *, show_all: bool) -> inspect.Parameter:
    """The command's parameter for one setting; its default None means "not given"."""
    kind = str if is_share(spec) else get_type_hints(Config)[spec.name]
    group: Group = spec.metadata["group"]
    flag = f"--{spec.name.replace('_', '-')}"
    names = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
    option = typer.Option(
        *names,
        help=spec.metadata["help"],
        metavar="SHARE" if is_share(spec) else None,
        rich_help_panel=str(group),
        hidden=not show_all and group is not Group.COMMON,
        show_default=str(spec.default) if spec.default != "" else False,
    )
    return inspect.Parameter(
        spec.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )
