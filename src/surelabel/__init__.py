"""surelabel labels an image dataset from a few labels, with an uncertainty for each label.

    import surelabel
    run = surelabel.label("photos/", labels="labels.csv", out="runs/photos")
    run.annotations

``__all__`` is the public API; the rest may change. Modules are imported when they are first used,
so that ``import surelabel`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surelabel.api import Run, label, open_run, resume
    from surelabel.config.settings import Config
    from surelabel.errors import SurelabelError
    from surelabel.workflows.label import Listeners

__all__ = ["Config", "Listeners", "Run", "SurelabelError", "label", "open_run", "resume"]

_MODULES = {
    "Config": "surelabel.config.settings",
    "Listeners": "surelabel.workflows.label",
    "Run": "surelabel.api",
    "SurelabelError": "surelabel.errors",
    "label": "surelabel.api",
    "open_run": "surelabel.api",
    "resume": "surelabel.api",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("surelabel")
    if name not in _MODULES:
        raise AttributeError(f"module 'surelabel' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
