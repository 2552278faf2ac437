"""What is known of a model that was written for other programs; needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ExportedModel:
    """The files that were written."""

    path: Path
    preprocessing: Path
