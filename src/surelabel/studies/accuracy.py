"""Accuracy on test images after each round, found after the run, so that no decision knows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.catalog import cache_folder, catalog_like, open_pixels
from surelabel.run import Run
from surelabel.runs.documents import read_json, write_json
from surelabel.session import as_recorded
from surelabel.studies.mnist_split import StudySplit
from surelabel.types import OnProgress

if TYPE_CHECKING:
    from surelabel.engines import LocalLearner
    from surelabel.runs import RoundFiles


def accuracy_on_test(
    run: Run, split: StudySplit, notes: Path, on_progress: OnProgress
) -> list[float]:
    """The accuracy of each round's nets on the test images; what ``notes`` has is not redone."""
    known: dict[str, float] = read_json(notes) if notes.exists() else {}
    learner: LocalLearner | None = None
    found = []
    for files in run.folder.finished_rounds():
        key = _key(files, split)
        if key not in known:
            learner = learner or _learner(run, split)
            learner.load(files.weights(), files.number)
            guess = learner.predict(learner.images.catalog.ids, on_progress).guess
            known[key] = float(np.mean(guess == split.test_truth))
            write_json(notes, known)
        found.append(known[key])
    return found


def _key(files: RoundFiles, split: StudySplit) -> str:
    """Names weights and images: a round that was made anew is measured anew."""
    from surelabel.engines.alike import FILE

    digests = files.digests()
    names = [*(path.name for path in files.weights()), FILE]
    weights = [digests[name][:16] for name in names if name in digests]
    return f"round {files.number}, {len(split.test_truth)} images, weights {' '.join(weights)}"


def _learner(run: Run, split: StudySplit) -> LocalLearner:
    from surelabel.engines import Images, LocalLearner, prepare

    folder = run.folder
    config = as_recorded(folder)
    prepare(config)
    cache = cache_folder(config.cache)
    catalog = catalog_like(folder.catalog, split.test_images, cache=cache)
    return LocalLearner(config, Images(catalog, open_pixels(catalog, cache)))
