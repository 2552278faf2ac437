"""Datasets from which nothing can be learned, and trainings that go wrong: told, never believed."""

from __future__ import annotations

import random
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import surelabel
from faults.inject import Ended, FaultPlan, run_child
from faults.scene import Outcome, label_command, make_scene, scratch, settings, write_labels
from surelabel.errors import NothingLabeledError
from surelabel.types import IntArray, LabelSource, Split

_CODES = (0, 1, 2, 4)
"""Done, failed on the way, bad input, nothing labeled."""


def odd_datasets(seed: int) -> Outcome:
    """One class, one label, all labeled, none, identical images, and the like."""
    failures, told = [], []
    cases: dict[str, Callable[[Path, list[str]], None]] = {
        "one class": _one_class,
        "one label per class": lambda place, names: _label(place, names[:1] + names[-1:]),
        "two labels per class": lambda place, names: _label(place, names[:2] + names[-2:]),
        "all labeled": _label,
        "none labeled": lambda place, names: _label(place, []),
        "a class with one label": _rare_class,
        "all images identical": _identical,
        "labels shuffled": partial(_shuffled, seed=seed),
    }
    with scratch() as scene:
        for number, (name, change) in enumerate(cases.items()):
            place = scene / str(number)
            out = make_scene(place, 40, accept="target", max_rounds=2, net="compact")
            change(place, sorted(p.name for p in (place / "photos").iterdir()))
            ended = run_child([word for word in label_command(place, out)[3:] if word != "--quiet"])
            told.append(f"{name}: exit {ended.code}")
            failures += [f"{name}: {each}" for each in _faults_of(ended, out, place)]
            if name in ("labels shuffled", "all images identical") and ended.code == 0:
                summary = surelabel.open_run(out).summary
                if summary.n_labeled > 0.1 * summary.n_images:
                    failures.append(f"{name}: {summary.n_labeled} of {summary.n_images} labeled")
    return Outcome("odd datasets", len(cases), tuple(failures), ", ".join(told))


def _label(place: Path, names: list[str]) -> None:
    write_labels(place / "labels.csv", names)


def _one_class(place: Path, names: list[str]) -> None:
    _label(place, [name for name in names if name.startswith("across")][:20])


def _rare_class(place: Path, names: list[str]) -> None:
    table = write_labels(place / "labels.csv", names[1:20] + names[-20:])
    table.write_text(f"{table.read_text()}{names[0]},rare\n")


def _identical(place: Path, names: list[str]) -> None:
    for name in names[1:]:
        shutil.copy(place / "photos" / names[0], place / "photos" / name)
    _label(place, names[:10] + names[-10:])


def _shuffled(place: Path, names: list[str], seed: int) -> None:
    labels = [name.split("-")[0] for name in names]
    random.Random(seed).shuffle(labels)
    rows = [f"{name},{label}" for name, label in zip(names, labels, strict=True)][::2]
    (place / "labels.csv").write_text("\n".join(["path,label", *rows]) + "\n")


def _faults_of(ended: Ended, out: Path, place: Path) -> list[str]:
    """What is wrong with how a command ended, and with the labels it left."""
    found = []
    # Where a library in C++ gets no memory in a thread of its own, Python cannot intervene.
    aborted = ended.code == -signal.SIGABRT and "bad_alloc" in ended.output
    if (ended.code not in _CODES and not aborted) or "Traceback" in ended.output:
        found.append(f"exit {ended.code}: {ended.output[-300:]}")
    if ended.code and len(ended.output.strip()) < 20:
        found.append("no reason is given")
    if (out / "run.json").exists() and (out / "rounds" / "001").exists():
        table = surelabel.open_run(out).annotations
        given = pd.read_csv(place / "labels.csv").set_index("path")["label"]
        stated = table.set_index("path").loc[given.index, "label"]
        if (stated != given).any():
            found.append("given labels have changed")
        by_run = table[table["source"] == str(LabelSource.PSEUDO)]
        if by_run[["probability", "score"]].isna().any().any():
            found.append("a label without a probability")
    return found


def shuffled_labels(n: int, seed: int) -> Outcome:
    """Runs on labels that say nothing about the images: what is promised about them holds."""
    violated = stated = labeled = 0
    with scratch() as place:
        for number in range(n):
            rng = np.random.default_rng([seed, number])
            truth = rng.integers(0, 2, 400)
            images = rng.integers(0, 255, (400, 8, 8), dtype=np.uint8)
            target = ("", "accepted=0.3", "accepted=0.45")[number % 3]
            promises = _promises(place / str(number), images, truth, target)
            shutil.rmtree(place / str(number))
            stated += bool(promises)
            labeled += sum(n_labels for _, _, n_labels in promises)
            violated += any(true > stated_error + 1e-12 for stated_error, true, _ in promises)
    failures = (f"{violated} of {n} promises do not hold",) if violated > max(1, 0.05 * n) else ()
    figures = f"{stated} stated a bound, about {labeled:,} labels in all; {violated} do not hold"
    return Outcome("labels shuffled at random", n, failures, figures)


def _promises(
    place: Path, images: np.ndarray[Any, Any], truth: IntArray, target: str
) -> list[tuple[float, float, int]]:
    """The largest error that a run promises, the true one, and how many labels they are about.

    Certify images carry their human label in the result, which is right.
    """
    n_labeled = 160
    splits = [Split.TRAIN] * 40 + [Split.TUNE] * 20 + [Split.CERTIFY] * 100
    labels = pd.DataFrame({"index": range(n_labeled), "label": truth[:n_labeled].astype(str)})
    labels["split"] = [str(split) for split in splits]
    config = settings(
        place / "cache", net="compact", steps=5, max_rounds=1, accept="top:150", max_error=target
    )
    try:
        run = surelabel.label(images, labels, place / "run", config=config, progress=False)
    except NothingLabeledError:
        return []
    record = run.summary.certification
    table = run.annotations
    by_run = table[table["source"] == str(LabelSource.PSEUDO)]
    right = truth[[int(path.split(":")[1]) for path in by_run["path"]]].astype(str)
    n_wrong = int((by_run["label"].to_numpy() != right).sum())
    parts = [part for part in record.parts if part.holds] if record is not None else []
    assert not any(part.name for part in parts), "no class has a target of its own"
    return [(part.error, n_wrong / max(1, part.n_labels), part.n_labels) for part in parts]


def odd_trainings(n: int, seed: int) -> Outcome:
    """NaN losses, exploding steps, too little memory: recovered, or a clear stop."""
    rng, failures, ends = random.Random(seed), [], dict[str, int]()
    faults: dict[str, tuple[list[str], Callable[[], None]]] = {
        "NaN loss once": ([], partial(_spoil_losses, float("nan"), rng.randrange(1, 20), 1)),
        "NaN loss always": ([], partial(_spoil_losses, float("nan"), 1, 10**9)),
        "exploding gradients": ([], partial(_spoil_losses, 1e38, rng.randrange(1, 20), 5)),
        "nothing is accepted": (["--accept", "confidence:1"], lambda: None),
    }
    with scratch() as scene:
        place = scene / "scene"
        make_scene(place, 40, net="compact")
        for number in range(n):
            mebibytes = 30 + 10 * (number // 5 % 20)  # with less, Python itself fails
            faults["too little memory"] = ([], partial(_limit_memory, mebibytes * 2**20))
            name = list(faults)[number % len(faults)]
            more, first = faults[name]
            out = scene / "run"
            shutil.rmtree(out, ignore_errors=True)
            argv = [w for w in label_command(place, out)[3:] if w != "--quiet"]
            ended = run_child([*argv, *more], FaultPlan(first=first))
            ends[f"{name}: exit {ended.code}"] = ends.get(f"{name}: exit {ended.code}", 0) + 1
            failures += [f"{name}: {each}" for each in _faults_of(ended, out, place)]
    return Outcome("trainings that go wrong", n, tuple(failures), str(ends).strip("{}"))


def _spoil_losses(factor: float, first: int, times: int) -> None:
    """Multiply the ``first``-th loss by ``factor``, and ``times`` - 1 after it."""
    tensor: Any = torch.Tensor
    real, done = tensor.backward, [0]

    def backward(self: torch.Tensor, *values: Any, **named: Any) -> None:
        done[0] += 1
        spoiled = self * factor if first <= done[0] < first + times else self
        real(spoiled, *values, **named)

    tensor.backward = backward


def _limit_memory(more: int) -> None:
    """Allow ``more`` bytes of address space beyond what this process has now."""
    with Path("/proc/self/statm").open() as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
