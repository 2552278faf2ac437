"""The promise covers what its certify images were drawn from, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run, truth

from surelabel.api import Run
from surelabel.guarantees.bounds import most_wrong
from surelabel.messages.guarantees import promise_sentences
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify import certify_run, standing_certification
from surelabel.workflows.label import add, problem_of

DRAWN = range(9, N, 3)


def look_at(folder: RunFolder) -> CertificationRecord:
    look = certify_run(folder, problem_of(folder).pool_ids)
    assert look is not None
    return look


def begun(place: Path, **options: object) -> RunFolder:
    """A run as training leaves it at its start."""
    return make_run(place, label_rows(DRAWN), max_error="0.05", **options)


def more_images(n: int = 300) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, (n, 8, 8), dtype=np.uint8)


def certify_rows(numbers: range) -> pd.DataFrame:
    rows = [(f"array:{i:05d}", truth(i), "certify") for i in numbers]
    return pd.DataFrame(rows, columns=["path", "label", "split"])


def test_images_that_come_later_are_not_covered(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    add(folder, more_images())
    finish_round(folder, wrong=tuple(range(N, N + 300)), fence=2.0)
    look = look_at(folder)
    (part,) = look.parts
    assert part.holds
    assert part.n_accepted == N - 8
    assert look.n_outside == 300
    assert "Not covered: 300 images" in " ".join(promise_sentences(Run(folder.path).summary))


def test_certify_images_that_come_with_new_images_speak_for_those_alone(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    look_at(folder)
    add(folder, more_images())
    add(folder, labels=certify_rows(range(N, N + 300, 2)))
    finish_round(folder, number=2, wrong=tuple(range(8, N)), fence=2.0)
    look = look_at(folder)
    (part,) = look.parts
    assert (part.holds, part.n_checked, part.n_accepted) == (True, 150, 300)
    assert look.n_outside == N - 8 - len(DRAWN), "all wrong, and no part of the promise"


def test_of_two_parts_the_one_with_more_certify_images_is_covered(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    add(folder, more_images())
    add(folder, labels=certify_rows(range(N, N + 40)))
    finish_round(folder, fence=2.0)
    look = look_at(folder)
    assert look.parts[0].n_checked == len(DRAWN)
    assert look.parts[0].n_accepted == N - 8
    assert len(look.left) == 40
    assert look_at(folder) == look, "what was passed over is no reason for a second look"


@pytest.mark.parametrize("by_table", [False, True])
def test_labels_by_people_after_the_draw_end_it(tmp_path: Path, *, by_table: bool) -> None:
    """They are asked for images that do not certify; the others would stand for nobody."""
    folder = begun(tmp_path)
    finish_round(folder)
    asked = [i for i in range(300, N) if i not in DRAWN]
    if by_table:
        rows = [(f"array:{i:05d}", truth(i)) for i in asked]
        add(folder, labels=pd.DataFrame(rows, columns=["path", "label"]))
    else:
        ids = dict(zip(folder.catalog.paths.tolist(), folder.catalog.ids.tolist(), strict=True))
        for i in asked:
            folder.answers.add(ids[f"array:{i:05d}"], "label", truth(i))
    finish_round(folder, number=2, fence=2.0)
    look = look_at(folder)
    assert (look.stale, look.read, look.holds) == (True, False, False)
    assert "People labeled images of the pool" in " ".join(
        promise_sentences(Run(folder.path).summary)
    )
    fresh = [i for i in range(10, 300, 2) if i not in DRAWN]
    add(folder, labels=certify_rows(range(10, 300, 2)).iloc[[(i - 10) // 2 for i in fresh]])
    renewed = look_at(folder)
    assert (renewed.stale, renewed.parts[0].n_checked) == (False, len(fresh))


def test_a_draw_is_kept_with_the_catalog_in_one_write(tmp_path: Path) -> None:
    """Killed right after the catalog was written, the run still knows what was drawn from what."""
    folder = begun(tmp_path)
    add(folder, more_images(100))
    folder.path.joinpath("annotations.parquet").unlink(missing_ok=True)
    again = RunFolder.open(folder.path)
    add(again, more_images(50) // 2)
    add(again, labels=certify_rows(range(N + 100, N + 150, 2)))
    drawn = RunFolder.open(folder.path).catalog
    assert drawn.sizes == (0, N, N + 100, N + 150)
    assert [(draw.first, draw.end) for draw in drawn.draws] == [(0, N), (N + 100, N + 150)]


def test_a_certify_label_that_is_corrected_ends_the_promise(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    assert look_at(folder).holds
    wrong = certify_rows(range(9, 69, 3)).assign(label=[truth(i + 1) for i in range(9, 69, 3)])
    add(folder, labels=wrong, overwrite=True)
    assert standing_certification(folder) is None
    look = look_at(folder)
    assert (look.spent, look.holds) == (True, False)


def test_an_answer_that_is_taken_back_changes_nothing(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    item_id = str(folder.catalog.ids[10])
    folder.answers.add(item_id, "label", "ant")
    folder.answers.add(item_id, "undo")
    finish_round(folder)
    assert look_at(folder).holds


def test_a_promise_is_not_lost_to_a_few_more_certify_labels(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    look = look_at(folder)
    assert look.holds
    add(folder, labels=certify_rows(range(10, 40, 6)))
    assert look_at(folder) == look, "five labels show nothing at 5 %"
    assert len(folder.read_certifications()) == 1


def test_why_labels_by_people_end_a_draw() -> None:
    """A class that is labeled away but for its certify images dilutes the errors of the rest."""
    rng, broken = np.random.default_rng(0), 0
    left, away, drawn, errors = 2000, 3000, 500, 60
    for _ in range(200):
        certify = rng.permutation(left + away)[:drawn]
        n_wrong = int((certify < errors).sum())
        n_accepted = left + int((certify >= left).sum())
        broken += most_wrong(n_accepted, drawn, n_wrong, 0.05) < errors
    assert broken > 100, "where 10 may be"
