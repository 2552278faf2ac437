"""What surelabel finds on this machine: versions, device, folders, and optional parts."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from surelabel.dataset.array_store import default_cache
from surelabel.types import JsonObject

_GIVES = {
    "photos": "pre-trained nets for photographs, offline (lite0, lite2)",
    "inception": "the paper's InceptionV3",
    "timm": "any pre-trained net of timm (DINOv2, SigLIP, ConvNeXt and others)",
    "report": "surelabel report: a page with figures",
    "review": "surelabel review: labeling in the browser",
    "studies": "the paper's experiments",
    "heic": "photographs from phones (HEIC)",
    "xlsx": "label tables from spreadsheets (.xlsx)",
    "large": "neighbors among more than 60,000 images in less time",
    "remote": "images and labels in S3 or at web addresses",
    "onnx": "surelabel export-model: the nets of a run for other programs",
    "ray": "--engine ray: decoding, features and training on the machines of a Ray cluster",
    "tensorboard": "--track tensorboard: figures of each round as event files",
    "mlflow": "--track mlflow: figures of each round in MLflow",
    "wandb": "--track wandb: figures of each round in Weights & Biases",
}
_LIBRARIES = ("torch", "numpy", "pandas", "pyarrow", "pillow", "scikit-learn", "safetensors")


@dataclass(frozen=True)
class Place:
    """A folder that surelabel writes to."""

    what: str
    path: Path
    is_writable: bool
    free: int
    """Bytes left on its disk."""
    used: int = 0
    """Bytes that surelabel keeps there."""


@dataclass(frozen=True)
class Extra:
    """An optional part, ``pip install 'surelabel[NAME]'``."""

    name: str
    gives: str
    missing: tuple[str, ...]
    """Packages that are not installed."""


@dataclass(frozen=True)
class Machine:
    """Everything that a question about a problem should come with."""

    versions: dict[str, str]
    device: str
    threads: int
    places: tuple[Place, ...]
    extras: tuple[Extra, ...]

    @property
    def problems(self) -> list[str]:
        """What would keep surelabel from working."""
        return [
            f"{place.path} cannot be written to: {_REMEDIES[place.what]}."
            for place in self.places
            if not place.is_writable
        ]

    def to_json(self) -> JsonObject:
        """Plain values."""
        places = [{**vars(place), "path": str(place.path)} for place in self.places]
        extras = [{**vars(extra), "missing": list(extra.missing)} for extra in self.extras]
        rest = {"places": places, "extras": extras, "problems": self.problems}
        return {"versions": self.versions, "device": self.device, "threads": self.threads, **rest}


_REMEDIES = {
    "cache": "name another folder with --cache or SURELABEL_CACHE",
    "this folder": "give --out a folder elsewhere",
    "temporary files": "set TMPDIR",
}


def inspect_machine() -> Machine:
    """Look at this machine; imports torch."""
    import torch

    from surelabel.dataset.parallel import n_workers
    from surelabel.engines.device import choose_device

    device = choose_device("auto")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = {"surelabel": metadata.version("surelabel"), "python": platform.python_version()}
    versions |= {"system": platform.platform()}
    versions |= {name: metadata.version(name) for name in _LIBRARIES}
    cache = default_cache()
    return Machine(
        versions=versions,
        device=f"{device} ({name})",
        threads=n_workers(),
        places=(
            _place("cache", cache, _size(cache)),
            _place("this folder", Path.cwd()),
            _place("temporary files", Path(tempfile.gettempdir())),
        ),
        extras=tuple(_extras()),
    )


def _place(what: str, path: Path, used: int = 0) -> Place:
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    is_writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return Place(what, path, is_writable, shutil.disk_usage(there).free, used)


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent) / name
            total += _on_disk(path.stat()) if path.is_file() else 0
    return total


def _on_disk(found: os.stat_result) -> int:
    """The bytes that a file takes; Windows tells only how long it is."""
    if sys.platform == "win32":
        return found.st_size
    return found.st_blocks * 512


def _extras() -> list[Extra]:
    needs: dict[str, list[str]] = {}
    for requirement in metadata.requires("surelabel") or []:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name and extra and extra[1] not in ("dev", "bench"):
            needs.setdefault(extra[1], []).append(name[0])
    return [
        Extra(name, _GIVES.get(name, ""), tuple(p for p in packages if not _is_installed(p)))
        for name, packages in needs.items()
    ]


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True
