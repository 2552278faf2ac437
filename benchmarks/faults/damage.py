"""Bits that flip, files that end early, pickles in their place: told by name, never believed."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import surelabel
from faults.crashes import must
from faults.inject import run_child
from faults.scene import (
    Outcome,
    copy_run,
    finished_run,
    label_command,
    make_scene,
    scratch,
)
from surelabel.errors import SurelabelError

KINDS = {
    "weights": "rounds/001/weights-0.safetensors",
    "scores": "rounds/002/scores.parquet",
    "figures": "rounds/002/metrics.json",
    "catalog": "catalog.parquet",
    "answers": "answers.sqlite",
    "settings": "config.toml",
    "promise": "certification.json",
    "run.json": "run.json",
    "digests": "digests.json",
    "result": "annotations.parquet",
    "cached pixels": "../cache/pixels-*/pixels.u8",
    "cache index": "../cache/pixels-*/index.sqlite",
    "cached features": "../cache-of-features/features-*/features.f16",
}
FEATURES = "cached features"
"""This kind is about a second run, on the features of a pre-trained net."""
Damage = Callable[[bytes, random.Random], bytes]


def flip(content: bytes, rng: random.Random) -> bytes:
    """From one bit to a hundred of them."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 10, 100))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def damaged_files(n: int, seed: int) -> Outcome:
    """n damages of each kind of file: the labels of before, or a refusal in a sentence."""
    failures: list[str] = []
    refused = n_tried = 0
    with scratch() as place:
        on_pixels, on_features = _runs(place)
        expected = {run: _read(run, place) for run in (on_pixels, on_features)}
        for kind, name in KINDS.items():
            run = on_features if kind == FEATURES else on_pixels
            (path,) = (place if name.startswith("..") else run).glob(name.removeprefix("../"))
            sound = path.read_bytes()
            for number in range(n):
                rng = random.Random(f"{seed} {kind} {number}")
                path.write_bytes((flip if number % 2 else truncate)(sound, rng))
                n_tried += 1
                try:
                    found = _read(run, place)
                    same = all(a.equals(b) for a, b in zip(found, expected[run], strict=True))
                    if not same:
                        failures.append(f"{kind} {number}: other labels, and no word about it")
                except SurelabelError:
                    refused += 1
                except Exception as error:
                    failures.append(f"{kind} {number}: {type(error).__name__}: {error}")
                for each in run.glob("answers.sqlite-*"):
                    each.unlink()
                path.write_bytes(sound)
    figures = f"{len(KINDS)} kinds of files; {refused} refused, the others harmless or mended"
    return Outcome("damaged files", n_tried, tuple(failures), figures)


def _runs(place: Path) -> tuple[Path, Path]:
    """A run with answers and a promise, and one on features."""
    on_pixels, on_features = make_scene(place), place / "features"
    names = sorted(path.name for path in (place / "photos").iterdir())
    rows = [f"{name},{name.split('-')[0]}" for name in names]
    table = [f"{row},train" for row in rows[:4] + rows[-4:]]
    table += [f"{row},tune" for row in rows[4:8] + rows[-8:-4]]
    table += [f"{row},certify" for row in rows[10:30:2]]
    (place / "labels.csv").write_text("\n".join(["path,label,split", *table]) + "\n")
    linear = ["--net", "lite0", "--tail", "linear", "--max-rounds", "1"]
    linear += ["--cache", str(place / "cache-of-features")]
    must(run_child(label_command(place, on_pixels)[3:]))
    must(run_child(label_command(place, on_features)[3:] + linear))
    folder = surelabel.open_run(on_pixels).folder
    for row in range(-16, -8):
        folder.answers.add(str(folder.catalog.ids[row]), "label", "down", "ann")
    folder.answers.close()
    must(run_child(["resume", str(on_pixels), "--quiet"]))
    return on_pixels, on_features


def _read(run: Path, place: Path) -> list[pd.DataFrame]:
    """What readers take from a run: labels as stored and as built again, and predictions."""
    opened = surelabel.open_run(run)
    stored = opened.annotations
    aside = run / "annotations.parquet"
    content = aside.read_bytes() if aside.exists() else b""
    aside.unlink(missing_ok=True)
    try:
        built = opened.annotations
    finally:
        if content:
            aside.write_bytes(content)
    promise = pd.DataFrame([str(opened.summary.certification)])
    return [stored, built, promise, opened.predict(place / "photos")]


class _Canary:
    """Executes itself when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (Path.write_text, (Path(self.mark), "executed"))  # type: ignore[return-value]


def pickles(seed: int) -> Outcome:
    """Every file of a run swapped for a pickle: nothing is executed."""
    failures, n = [], 0
    with scratch() as place:
        whole = finished_run(place)
        mark = place / "executed"
        poison = pickle.dumps(_Canary(str(mark)))
        array = np.array([_Canary(str(mark))], dtype=object)
        np.save(place / "labels.npy", array, allow_pickle=True)
        names = [p.relative_to(whole) for p in sorted(whole.rglob("*")) if p.is_file()]
        for name in names:
            run = copy_run(whole, place / "copy")
            (run / name).write_bytes(poison)
            n += 1
            try:
                opened = surelabel.open_run(run)
                opened.annotations, opened.summary  # noqa: B018
                opened.predict(place / "photos")
            except SurelabelError:
                pass
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
        try:
            surelabel.label(place / "photos", place / "labels.npy", place / "other")
            failures.append("an array of pickles was read as labels")
        except SurelabelError:
            n += 1
        if mark.exists():
            failures.append("a pickle was executed")
    return Outcome("pickles in place of files", n, tuple(failures))
