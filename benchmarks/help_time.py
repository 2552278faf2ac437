"""How long ``surelabel --help`` takes over ``import torch``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from clock import best_times
from settings import Settings


def main(settings: Settings) -> dict[str, Any]:
    def call(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    times = best_times(
        {
            "help": lambda: call("-m", "surelabel", "--help"),
            "torch": lambda: call("-c", "import torch"),
        },
        repeats=1 if settings.tiny else 7,
    )
    return {
        "help_seconds": round(times["help"], 3),
        "import_torch_seconds": round(times["torch"], 3),
        "ratio": round(times["help"] / times["torch"], 3),
    }
