"""Certify labels from the review page, on rounds whose guesses are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, make_run, truth

from surelabel.errors import InputError
from surelabel.runs.answers import Purpose
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.types import Split
from surelabel.workflows.certify import certify_run, standing_certification
from surelabel.workflows.certify_labels import adopt_certify_labels, ids_to_certify, n_unanswered
from surelabel.workflows.certify_plan import certify_table, open_plan
from surelabel.workflows.first_labels import begin_unlabeled
from surelabel.workflows.label import add, annotations_of
from surelabel.workflows.problem import problem_of

TRAIN = pd.DataFrame(
    [(i, truth(i), "train") for i in range(8)], columns=["index", "label", "split"]
)


def index_of(folder: RunFolder, item_id: str) -> int:
    catalog = folder.catalog
    row = int(catalog.rows(np.array([item_id]))[0])
    return int(str(catalog.paths[row]).split(":")[1])


def answer(folder: RunFolder, ids: list[str]) -> None:
    for item_id in ids:
        label = truth(index_of(folder, item_id))
        folder.answers.add(item_id, "label", label, purpose=Purpose.CERTIFY)


def certify(folder: RunFolder, n: int) -> CertificationRecord | None:
    ids = ids_to_certify(folder, n).tolist()
    answer(folder, ids)
    return adopt_certify_labels(folder, ids)


def test_the_images_are_a_random_sample_of_the_pool_whose_order_stays(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN)
    pool = set(problem_of(folder).pool_ids.tolist())
    every = ids_to_certify(folder, N).tolist()
    assert set(every) == pool
    assert ids_to_certify(folder, 50).tolist() == every[:50]
    places = [index_of(folder, i) for i in every[:100]]
    assert 150 < np.mean(places) < 250
    folder.answers.add(every[3], "label", "ant")
    assert ids_to_certify(folder, 50).tolist() == [*every[:3], *every[4:51]]


def test_the_answers_certify_without_training(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2)
    inputs = problem_of(folder).inputs
    record = certify(folder, 150)
    assert record is not None
    (part,) = record.parts
    assert (part.status, record.labels_read) == ("certified", True)
    assert standing_certification(folder) == record
    assert problem_of(folder).inputs == inputs
    assert (folder.catalog.splits == Split.CERTIFY).sum() == 150
    assert (annotations_of(folder)["source"] == "given").sum() == 158


def test_none_and_unsure_count_as_wrong(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, stop_below=N)
    finish_round(folder, threshold=1.0)
    ids = ids_to_certify(folder, 100).tolist()
    folder.answers.add(ids[0], "none", purpose=Purpose.CERTIFY)
    folder.answers.add(ids[1], "unsure", purpose=Purpose.CERTIFY)
    assert n_unanswered(folder, ids) == 98
    answer(folder, ids[2:])
    record = adopt_certify_labels(folder, ids)
    assert record is not None
    assert (record.parts[0].n_checked, record.parts[0].n_wrong) == (100, 2)


def test_a_class_that_came_by_review_certifies_like_any_other(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, stop_below=N)
    every = ids_to_certify(folder, N).tolist()
    folder.answers.add(every[-1], "label", "cow")
    cows = every[:3]
    finish_round(folder, threshold=1.0, new=tuple(index_of(folder, i) for i in cows[:2]))
    for item_id in cows:
        folder.answers.add(item_id, "label", "cow", purpose=Purpose.CERTIFY)
    ids = ids_to_certify(folder, 100).tolist()
    answer(folder, ids[3:])
    record = adopt_certify_labels(folder, ids)
    assert record is not None
    assert (record.parts[0].n_checked, record.parts[0].n_wrong) == (100, 1)
    table = annotations_of(folder).set_index("id")
    assert table.loc[cows, "label"].tolist() == ["cow"] * 3
    assert table.loc[cows, "source"].tolist() == ["reviewed"] * 3


def test_a_run_that_is_not_finished_keeps_the_labels_unread(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN)
    finish_round(folder)
    folder.answers.add(ids_to_certify(folder, N)[-1], "label", "bee")
    assert certify(folder, 60) is None
    assert standing_certification(folder) is None
    assert not folder.read_certifications()
    assert (folder.catalog.splits == Split.CERTIFY).sum() == 60


def test_the_next_ones_are_fresh(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, stop_below=N)
    finish_round(folder)
    first = certify(folder, 80)
    second = certify(folder, 70)
    assert first is not None
    assert second is not None
    assert second.labels_read
    assert len(second.certify_ids) == 70
    assert not set(first.certify_ids) & set(second.certify_ids)


def test_groups_are_drawn_as_a_whole(tmp_path: Path) -> None:
    rows = [(i, truth(i) if i < 8 else "", "", f"lot {i // 4}") for i in range(N)]
    labels = pd.DataFrame(rows, columns=["index", "label", "split", "group"])
    folder = make_run(tmp_path, labels)
    ids = ids_to_certify(folder, 30).tolist()
    lots = {index_of(folder, i) // 4 for i in ids}
    assert len(ids) == 32 == 4 * len(lots)
    assert not lots & {0, 1}


def test_a_run_without_labels_asks_for_the_first_ones(tmp_path: Path) -> None:
    from workflow_data import tiny, write_stripes

    write_stripes(tmp_path / "photos", "down", range(3))
    folder = begin_unlabeled(tmp_path / "photos", tmp_path / "run", tiny(tmp_path / "cache"))
    with pytest.raises(InputError, match="without --certify"):
        ids_to_certify(folder, 3)


def answer_until_over(folder: RunFolder, ids: list[str]) -> int:
    """Answer the images in their order until the look is over; how many answers that took."""
    plan = open_plan(folder)
    assert plan is not None
    for n, item_id in enumerate(ids):
        answers = folder.answers.standing(purpose=Purpose.CERTIFY)
        if plan.status(answers).is_over:
            return n
        answer(folder, [item_id])
    return len(ids)


def test_a_target_for_the_dataset_is_certified_by_looks_with_few_answers(tmp_path: Path) -> None:
    wrong = range(200, N)
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(wrong), threshold=0.2)
    ids = ids_to_certify(folder, 100).tolist()
    places = [index_of(folder, item_id) for item_id in ids]
    assert len(ids) == 100
    assert places == sorted(places)
    n_answered = answer_until_over(folder, ids)
    assert n_answered < 65
    record = adopt_certify_labels(folder, ids[:n_answered])
    assert record is not None
    (part,) = record.parts
    assert part.status == "certified"
    assert 190 <= part.n_accepted <= 220
    assert (folder.catalog.splits == Split.CERTIFY).sum() == n_answered

    more = ids_to_certify(folder, 100).tolist()
    (draw,) = folder.catalog.draws
    assert [len(look) for look in draw.looks] == [100, 100]
    assert not set(more) & set(draw.certify)
    before = part.threshold
    answered = answer_until_over(folder, more)
    second = adopt_certify_labels(folder, more[:answered])
    assert second is not None
    assert second.holds
    assert not second.alpha_spent
    assert second.parts[0].threshold is not None
    assert before is not None
    assert second.parts[0].threshold >= before


def test_who_stops_early_certifies_less_and_may_go_on(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2)
    ids = ids_to_certify(folder, 150).tolist()
    answer(folder, ids[:20])
    record = adopt_certify_labels(folder, ids[:20])
    assert record is not None
    few = record.parts[0].n_accepted
    rest = ids_to_certify(folder, 150).tolist()
    assert rest == ids[20:]
    answer(folder, rest[:60])
    record = adopt_certify_labels(folder, rest[:60])
    assert record is not None
    assert record.parts[0].n_accepted > 2 * few > 0
    accepted = annotations_of(folder)
    unasked = [i for i in rest[60:] if index_of(folder, i) / N <= (record.parts[0].threshold or 0)]
    assert (accepted.set_index("id").loc[unasked, "source"] == "").all()


def test_a_new_round_ends_the_looks(tmp_path: Path) -> None:
    """Scores have changed: the answers were given in the order of the old ones."""
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2)
    ids = ids_to_certify(folder, 150).tolist()
    answer(folder, ids[:80])
    adopt_certify_labels(folder, ids[:80])
    finish_round(folder, wrong=tuple(range(300, N)), threshold=0.2, number=2)
    assert open_plan(folder) is None
    assert standing_certification(folder) is None
    new = ids_to_certify(folder, 150).tolist()
    assert len(folder.catalog.draws) == 2
    assert not set(new) & set(ids[:80])
    assert set(new) & set(ids[80:]) != set(ids[80:])


def test_a_table_of_the_surest_certifies_as_the_page_does(tmp_path: Path) -> None:
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2)
    table = certify_table(folder, 120)
    places = [int(path.split(":")[1]) for path in table["path"]]
    assert (len(places), places) == (120, sorted(places))
    table["label"] = [truth(i) if n < 70 else "" for n, i in enumerate(places)]
    add(folder, labels=table[["path", "label", "split"]])
    (draw,) = folder.catalog.draws
    assert len(draw.certify) == 70
    record = certify_run(folder, problem_of(folder).pool_ids)
    assert record is not None
    assert record.parts[0].status == "certified"
    assert 200 < record.parts[0].n_accepted < 260
