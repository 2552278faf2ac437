"""``plan.json``: what people decided on the page, such as names of classes and the error they want.

It changes while a training holds the run's lock, so it carries its checksum itself.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from surelabel.errors import RunDamagedError
from surelabel.files.documents import read_json, write_json
from surelabel.types import JsonObject

PLAN = "plan.json"
_CHECKSUM = "checksum"


def read_plan(run: Path) -> JsonObject:
    """What people decided in ``run``; empty at first."""
    path = run / PLAN
    stored = read_json(path) if path.exists() else {}
    if not isinstance(stored, dict):
        raise _damaged(path)
    plan: JsonObject = {key: value for key, value in stored.items() if key != _CHECKSUM}
    # Plans of earlier versions have no checksum.
    is_whole = stored.get(_CHECKSUM, _checksum(plan)) == _checksum(plan)
    if not is_whole or not _is_well_formed(plan):
        raise _damaged(path)
    return plan


def write_plan(run: Path, plan: JsonObject) -> None:
    """Replace what people decided."""
    write_json(run / PLAN, {**plan, _CHECKSUM: _checksum(plan)})


def _is_well_formed(plan: JsonObject) -> bool:
    classes, wish = plan.get("classes", []), plan.get("wish") or {}
    return (
        isinstance(classes, list)
        and all(isinstance(name, str) for name in classes)
        and isinstance(wish, dict)
        and all(isinstance(wish.get(key, 0), int | float) for key in ("max_error", "n"))
    )


def _checksum(plan: JsonObject) -> str:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> RunDamagedError:
    return RunDamagedError(
        f"{path} was changed or damaged. Put back a copy, or delete it: the page asks again for "
        "the names of classes and for the error you can live with. People's answers are safe in "
        "answers.sqlite."
    )
