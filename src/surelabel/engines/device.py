"""What the machine has to do with results: threads and the torch build."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from surelabel.config.choices import EngineName
from surelabel.config.settings import Config
from surelabel.dataset.parallel import n_workers
from surelabel.errors import OptionError


def prepare(config: Config) -> dict[str, Any]:
    """Set the thread count; return what has to be equal for bit-identical results."""
    name = os.environ.get("OMP_NUM_THREADS", "")
    usual = 1 if config.engine is EngineName.RAY else n_workers()  # there a worker is one thread
    threads = config.threads or (int(name) if name.isdigit() else 0) or usual
    torch.set_num_threads(threads)
    device = str(choose_device(config.device))
    return {"torch": torch.__version__, "threads": threads, "device": device}


def choose_device(name: str) -> torch.device:
    """The device by name; ``auto`` takes a CUDA device where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise OptionError(
            f"device is '{name}', which this machine or this torch does not have: use cpu or auto."
        ) from None
    return device


def n_at_once(n: int, device: torch.device) -> int:
    """How many of ``n`` nets train at a time: as many as the processor's threads can divide.

    Another device has its own ways to be busy, and memory for one net.
    """
    return max(1, min(n, torch.get_num_threads())) if device.type == "cpu" else 1


def peak_memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where nobody tells."""
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else 1024 * int(most)
