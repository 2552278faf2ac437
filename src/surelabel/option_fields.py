"""How an option is written down: default, help, heading and range, as a dataclass field."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any


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
