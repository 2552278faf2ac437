"""Writes ``docs/options.md`` from ``Config``: ``make docs``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import get_type_hints

from surelabel.config.fields import Group, in_words
from surelabel.config.settings import Config, options


def options_page() -> str:
    """The page as Markdown: a table for each group of options."""
    lines = [
        "# Options",
        "",
        "Every setting can be given in three ways: as an option of `surelabel label`",
        "(`--max-rounds 5`), as a key of the TOML file that `--config` names (`max_rounds = 5`),",
        "and as an argument of `surelabel.label` (`max_rounds=5`). Settings that are on (`True`)",
        "are switched off with `--no-NAME`. This page is generated; a test keeps it up to date.",
    ]
    kinds = get_type_hints(Config)
    for group in Group:
        lines += [
            "",
            f"## {group}",
            "",
            "| Option | Meaning | Default | Range |",
            "|---|---|---|---|",
        ]
        for spec in options():
            if spec.metadata["group"] is group:
                default = (
                    f"`{spec.default:g}`"
                    if isinstance(spec.default, float)
                    else f"`{spec.default}`"
                )
                lines.append(
                    f"| `{spec.name}` | {spec.metadata['help']} | "
                    f"{default if spec.default != '' else ''} | "
                    f"{_range(kinds[spec.name], spec.metadata)} |"
                )
    return "\n".join(lines) + "\n"


def _range(kind: type, metadata: object) -> str:
    if issubclass(kind, StrEnum):
        return ", ".join(kind)
    assert hasattr(metadata, "get")
    low, high = metadata.get("low"), metadata.get("high")
    return in_words(low, high).removeprefix("from ") if low is not None else ""


if __name__ == "__main__":
    Path(__file__).with_name("options.md").write_text(options_page(), encoding="utf-8")
