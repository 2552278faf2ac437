"""Bits that flip, files that end early, pickles in their place: told by name, never believed."""

from __future__ import annotations

import pickle
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import surelabel
from faults.scene import Outcome, copy_run, finished_run
from surelabel.errors import SurelabelError

KINDS = {
    "weights": "rounds/001/weights-0.safetensors",
    "scores": "rounds/002/scores.parquet",
    "figures": "rounds/002/metrics.json",
    "catalog": "catalog.parquet",
    "answers": "answers.sqlite",
    "settings": "config.toml",
    "run.json": "run.json",
    "digests": "digests.json",
    "result": "annotations.parquet",
    "cached pixels": "../cache/pixels-*/pixels.u8",
    "cache index": "../cache/pixels-*/index.sqlite",
}
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
    failures, refused, n_tried, began = [], 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        run = finished_run(place)
        folder = surelabel.open_run(run).folder
        for row in range(-8, 0):
            folder.answers.add(str(folder.catalog.ids[row]), "label", "down", "ann")
        folder.answers.close()
        surelabel.open_run(run).resume()
        folder.answers.close()
        copy_run(run, place / "copy")
        expected = _read(run, place)
        for kind, name in KINDS.items():
            (path,) = (run.parent if name.startswith("..") else run).glob(name.removeprefix("../"))
            sound = path.read_bytes()
            for number in range(n):
                rng = random.Random(f"{seed} {kind} {number}")
                path.write_bytes((flip if number % 2 else truncate)(sound, rng))
                n_tried += 1
                try:
                    found = _read(run, place)
                    same = all(a.equals(b) for a, b in zip(found, expected, strict=True))
                    if not same:
                        failures.append(f"{kind} {number}: other labels, and no word about it")
                except SurelabelError:
                    refused += 1
                except Exception as error:
                    failures.append(f"{kind} {number}: {type(error).__name__}: {error}")
                for each in run.glob("answers.sqlite-*"):
                    each.unlink()
                path.write_bytes(sound)
    figures = f"{refused} refused, the others harmless or mended; {time.monotonic() - began:.0f} s"
    return Outcome("damaged files", n_tried, tuple(failures), figures)


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
    return [stored, built, opened.predict(place / "photos")]


class _Canary:
    """Executes itself when it is unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (Path.write_text, (Path(self.mark), "executed"))  # type: ignore[return-value]


def pickles(seed: int) -> Outcome:
    """Every file of a run swapped for a pickle: nothing is executed."""
    failures, n = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
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
