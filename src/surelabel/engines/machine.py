"""What the machine has to do with results: threads and the torch build."""

from __future__ import annotations

import os
from typing import Any

import torch

from surelabel.config import Config


def prepare(config: Config) -> dict[str, Any]:
    """Set the thread count; return what has to be equal for bit-identical results."""
    threads = config.threads or int(os.environ.get("OMP_NUM_THREADS") or available_cores())
    torch.set_num_threads(threads)
    return {"torch": torch.__version__, "threads": threads, "device": config.device}


def available_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
