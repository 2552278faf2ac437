"""How one option is declared, converted and checked; bad values get a sentence."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

from surelabel.errors import OptionError


class Group(StrEnum):
    """Headings under which options are shown."""

    COMMON = "Common options"
    LABELS = "Labels and images"
    LOOP = "Self-training loop"
    NETWORK = "Network and uncertainty"
    TRAINING = "Training"
    MACHINE = "Machine"


def option(
    default: Any,
    help: str,
    group: Group,
    low: float | None = None,
    high: float | None = None,
) -> Any:
    """A field of ``Config``."""
    return dataclasses.field(
        default=default, metadata={"help": help, "group": group, "low": low, "high": high}
    )


def share_of(text: str) -> float:
    """``0.02`` or ``2%`` as a number; ``ValueError`` for anything else.

    A bare ``2`` is returned as it is: whoever checks the range asks whether 2 % was meant.
    """
    bare = text.strip()
    is_percent = bare.endswith("%")
    number = float(bare.removesuffix("%"))
    return number / 100 if is_percent else number


def read_share(name: str, text: str, where: str) -> float:
    """The value ``text`` of the option ``name``, or a sentence on what it can be."""
    try:
        return share_of(text)
    except ValueError:
        raise OptionError(
            f"{where}: {name} is '{text}'; it has to be a number such as 0.02 or 2%."
        ) from None


def percent_hint(value: float) -> str:
    """What to write for a number that looks like percent; empty for one that does not."""
    if not 1 <= value <= 100:
        return ""
    return f" For {value:g} percent write {value:g}% or {value / 100:g}."


def read_toml(path: Path) -> dict[str, Any]:
    """The table in ``path``, or a sentence on what is wrong with the file."""
    if path.exists() and not path.is_file():  # a pipe or a device may have no end
        raise OptionError(f"{path} is not a file: name a TOML file of settings.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OptionError(f"{path}: there is no such settings file.") from None
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not valid TOML: {error}.") from None


def to_toml(value: Any) -> str:
    """JSON is TOML but for characters beyond 16 bits, whose escapes differ, and for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def convert(name: str, kind: Any, value: Any, where: str) -> Any:
    """``value`` as the option's type; TOML and JSON know no enums and may write 1 for 1.0."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(value)
        except ValueError:
            choices = ", ".join(kind)
            raise OptionError(f"{where}: {name} is '{value}'; it can be {choices}.") from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is float and isinstance(value, str) and value.rstrip().endswith("%"):
        return read_share(name, value, where)
    if name == "max_error" and isinstance(value, float):
        return str(value)
    return value


def is_share(spec: dataclasses.Field[Any]) -> bool:
    """Whether the option is a share, which may be given in percent."""
    high = spec.metadata["high"]
    return isinstance(spec.default, float) and high is not None and high <= 1


def check(spec: dataclasses.Field[Any], value: Any) -> None:
    expected = type(spec.default)
    if isinstance(value, bool) != (expected is bool) or not isinstance(
        value, (int, float) if expected is float else expected
    ):
        raise OptionError(
            f"{spec.name} is {value!r}; it has to be of the kind of {spec.default!r}."
        )
    low, high = spec.metadata["low"], spec.metadata["high"]
    if isinstance(value, str) and "\0" in value:
        raise OptionError(f"{spec.name} is {value!r}; it cannot hold the character U+0000.")
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(f"{spec.name} is {value}; it has to be a finite number.")
    if (low is not None and value < low) or (high is not None and value > high):
        hint = percent_hint(value) if isinstance(value, int | float) and is_share(spec) else ""
        raise OptionError(f"{spec.name} is {value}; it can be {in_words(low, high)}.{hint}")


def in_words(low: float, high: float) -> str:
    """The range of an option, with large numbers in full."""
    numbers = (f"{x:,.0f}" if abs(x) >= 10_000 else f"{x:g}" for x in (low, high))
    return "from {} to {}".format(*numbers)


def nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean '{close[0]}'?" if close else "See surelabel label --help."
