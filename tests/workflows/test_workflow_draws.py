"""A certification covers the images that its certify images were drawn from, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run, truth

from surelabel.api import Run
from surelabel.guarantees.bounds import wrong_upper_bound
from surelabel.messages.guarantees import certification_sentences
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify import certify_run, standing_certification
from surelabel.workflows.label import add
from surelabel.workflows.problem import problem_of

DRAWN = range(9, N, 3)


def certify(folder: RunFolder) -> CertificationRecord:
    record = certify_run(folder, problem_of(folder).pool_ids)
    assert record is not None
    return record


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
    finish_round(folder, wrong=tuple(range(N, N + 300)), threshold=2.0)
    record = certify(folder)
    (part,) = record.parts
    assert part.holds
    assert part.n_accepted == N - 8
    assert record.n_not_covered == 300
    assert "300" in certification_sentences(Run(folder.path).summary)[-1]


def test_certify_images_among_new_images_cover_those_alone(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    certify(folder)
    add(folder, more_images())
    add(folder, labels=certify_rows(range(N, N + 300, 2)))
    finish_round(folder, number=2, wrong=tuple(range(8, N)), threshold=2.0)
    record = certify(folder)
    (part,) = record.parts
    assert (part.holds, part.n_checked, part.n_accepted) == (True, 150, 300)
    assert record.n_not_covered == N - 8 - len(DRAWN), "all wrong, and not covered"


def test_of_two_parts_the_one_with_more_certify_images_is_covered(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    add(folder, more_images())
    add(folder, labels=certify_rows(range(N, N + 40)))
    finish_round(folder, threshold=2.0)
    record = certify(folder)
    assert record.parts[0].n_checked == len(DRAWN)
    assert record.parts[0].n_accepted == N - 8
    assert len(record.unused_ids) == 40
    assert certify(folder) == record, "images that were not used are no reason to read labels again"


@pytest.mark.parametrize("by_table", [False, True])
def test_human_labels_after_the_draw_end_it(tmp_path: Path, *, by_table: bool) -> None:
    """People label images that are not certify images, so these no longer represent the pool."""
    folder = begun(tmp_path)
    finish_round(folder)
    labeled = [i for i in range(300, N) if i not in DRAWN]
    if by_table:
        rows = [(f"array:{i:05d}", truth(i)) for i in labeled]
        add(folder, labels=pd.DataFrame(rows, columns=["path", "label"]))
    else:
        ids = dict(zip(folder.catalog.paths.tolist(), folder.catalog.ids.tolist(), strict=True))
        for i in labeled:
            folder.answers.add(ids[f"array:{i:05d}"], "label", truth(i))
    finish_round(folder, number=2, threshold=2.0)
    record = certify(folder)
    assert (record.pool_changed, record.labels_read, record.holds) == (True, False, False)
    sentences = certification_sentences(Run(folder.path).summary)
    assert len(sentences) > 1, "why nothing is guaranteed, and what to do"
    fresh = [i for i in range(10, 300, 2) if i not in DRAWN]
    add(folder, labels=certify_rows(range(10, 300, 2)).iloc[[(i - 10) // 2 for i in fresh]])
    renewed = certify(folder)
    assert (renewed.pool_changed, renewed.parts[0].n_checked) == (False, len(fresh))


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


def test_correcting_a_certify_label_ends_the_certification(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    assert certify(folder).holds
    wrong = certify_rows(range(9, 69, 3)).assign(label=[truth(i + 1) for i in range(9, 69, 3)])
    add(folder, labels=wrong, overwrite=True)
    assert standing_certification(folder) is None
    record = certify(folder)
    assert (record.alpha_spent, record.holds) == (True, False)


def test_an_undone_answer_changes_nothing(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    item_id = str(folder.catalog.ids[10])
    folder.answers.add(item_id, "label", "ant")
    folder.answers.add(item_id, "undo")
    finish_round(folder)
    assert certify(folder).holds


def test_a_certification_survives_a_few_more_certify_labels(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    finish_round(folder)
    record = certify(folder)
    assert record.holds
    add(folder, labels=certify_rows(range(10, 40, 6)))
    assert certify(folder) == record, "five labels show nothing at 5 %"
    assert len(folder.read_certifications()) == 1


def test_why_human_labels_end_a_draw() -> None:
    """If people label a class except for its certify images, these hide the errors of the rest."""
    rng, broken = np.random.default_rng(0), 0
    left, away, drawn, errors = 2000, 3000, 500, 60
    for _ in range(200):
        certify = rng.permutation(left + away)[:drawn]
        n_wrong = int((certify < errors).sum())
        n_accepted = left + int((certify >= left).sum())
        broken += wrong_upper_bound(n_accepted, drawn, n_wrong, 0.05) < errors
    assert broken > 100, "where 10 may be"
