"""What a benchmark may be asked for; each takes what concerns it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The options of ``run.py``. 0 means: the benchmark's own size."""

    tiny: bool = False
    """Only show that it works."""
    seed: int = 100
    """Draws the labels, and seeds what is trained."""
    n_seeds: int = 3
    """Where several seeds are compared: this many, from ``seed`` up."""
    labels: int = 50
    """Labels per class to learn from."""
    images: int = 0
    """Images in the pool, or to predict."""
    steps: int = 0
    """Training steps of a net."""
    effort: str = "normal"
    """How much training a run of surelabel may cost."""
    run: Path | None = None
    """A finished run on the same images to read instead of one made here."""
    out: Path | None = None
    """Where a run made here is kept; by default it is thrown away."""

    def size(self, asked: int, full: int, tiny: int) -> int:
        """A size: what was asked for, or by the scale."""
        return asked or (tiny if self.tiny else full)
