from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from review_data import Page
from workflow_data import id_of

from surelabel.review.queue import (
    NOT_SCORED,
    Order,
    ReviewQueue,
    Task,
    measure_ranks,
    most_useful,
    reason_text,
    shown_measures,
    sorted_ids,
)
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import PartialRound
from surelabel.selection.reasons import Reason
from surelabel.workflows.label import annotations_of


@pytest.fixture(name="queue")
def fixture_queue(folder: RunFolder) -> ReviewQueue:
    return ReviewQueue(folder, Task())


def unlabeled(folder: RunFolder) -> set[str]:
    table = annotations_of(folder)
    return set(table.loc[table["source"] == "", "id"])


def test_the_queue_holds_what_the_run_left_unlabeled(queue: ReviewQueue, folder: RunFolder) -> None:
    assert set(queue.ids) == unlabeled(folder)
    assert len(queue.ids) > 10


@pytest.mark.parametrize("order", list(Order))
def test_every_order_has_every_image_once_and_is_repeatable(
    queue: ReviewQueue, folder: RunFolder, order: Order
) -> None:
    ids = queue.ordered(order)
    assert sorted(ids) == sorted(queue.ids)
    assert ids == ReviewQueue(folder, Task()).ordered(order)


def test_most_useful_is_where_the_nets_disagree_most(queue: ReviewQueue, folder: RunFolder) -> None:
    table = annotations_of(folder).set_index("id")
    shown = table.loc[queue.ordered(Order.USEFUL), "mutual_information"].to_numpy()
    assert (np.diff(shown) <= 0).all()


@pytest.mark.parametrize("order", [Order.REASON, Order.CLASS])
def test_orders_by_reason_and_class_keep_them_together(queue: ReviewQueue, order: Order) -> None:
    items = queue.describe(queue.ordered(order))
    keys = [i["reason"] if order is Order.REASON else i["guesses"][0]["label"] for i in items]
    changes = sum(a != b for a, b in pairwise(keys))
    assert changes == len(set(keys)) - 1


def test_guesses_have_falling_probabilities_that_add_up_to_one(queue: ReviewQueue) -> None:
    for item in queue.describe(queue.ids):
        shares = [guess["probability"] for guess in item["guesses"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert {guess["label"] for guess in item["guesses"]} == {"across", "down"}


def test_every_image_has_a_reason_and_three_measures(queue: ReviewQueue) -> None:
    for item in queue.describe(queue.ids):
        assert item["reason"].endswith(".")
        assert len(item["measures"]) == 3
        assert all(0 <= measure["rank"] <= 1 for measure in item["measures"])


def test_images_answered_before_the_last_round_are_not_asked_again(
    queue: ReviewQueue, folder: RunFolder
) -> None:
    given = id_of(folder, "down-00.png")
    assert given not in queue.ids
    item_id = queue.ids[0]
    folder.answers.add(item_id, "label", "down")
    assert item_id in ReviewQueue(folder, Task()).ids
    assert set(ReviewQueue(folder, Task()).answered()) == {item_id}


def test_counts_follow_the_answers(queue: ReviewQueue, folder: RunFolder) -> None:
    before = queue.counts()
    assert before["across"]["people"] == before["down"]["people"] == 5
    folder.answers.add(queue.ids[0], "label", "down")
    folder.answers.add(id_of(folder, "across-00.png"), "label", "down")
    after = queue.counts()
    assert (after["across"]["people"], after["down"]["people"]) == (4, 7)
    assert after["down"]["run"] == before["down"]["run"]


def test_a_pseudo_label_that_a_person_changed_counts_as_theirs(
    queue: ReviewQueue, folder: RunFolder
) -> None:
    table = annotations_of(folder)
    pseudo = table[table["source"] == "pseudo"].iloc[0]
    before = queue.counts()
    folder.answers.add(pseudo["id"], "none")
    after = queue.counts()
    assert after[pseudo["label"]]["run"] == before[pseudo["label"]]["run"] - 1


def test_similar_images_begin_with_the_image_and_leave_out_answered_ones(
    queue: ReviewQueue, folder: RunFolder
) -> None:
    first, done = queue.ids[0], queue.ids[1]
    folder.answers.add(done, "none")
    similar = queue.similar(first, 100)
    assert similar[0] == first
    assert set(similar) == set(queue.ids) - {done}
    assert len(queue.similar(first, 5)) == 5
    assert queue.similar("0" * 16, 5) == []


def test_search_finds_parts_of_paths_as_they_are(queue: ReviewQueue) -> None:
    assert [i["path"] for i in queue.search("ACROSS-07")] == ["across-07.png"]
    assert len(queue.search(".png")) == 40
    assert queue.search("a.*") == queue.search(" ") == []


def test_a_blind_task_keeps_the_order_and_hides_the_label_until_answered(
    folder: RunFolder,
) -> None:
    ids = tuple(reversed(folder.catalog.ids[20:26].tolist()))
    page = Page(folder, Task(Purpose.AUDIT, ids))
    for order in Order:
        assert tuple(page.ids(order)) == ids
    (item,) = page.get("/api/items", ids=ids[0])
    assert set(item) == {"id", "path", "answer"}
    one = {"id": ids[0], "kind": "unsure", "expected_seq": 0}
    page.post("/api/answers", answers=[one])
    (item,) = page.get("/api/items", ids=ids[0])
    assert item["answer"]["kind"] == "unsure"
    assert set(item) == {"id", "path", "answer"}
    page.answer(ids[1], "down")
    (item,) = page.get("/api/items", ids=ids[0])
    assert "guesses" in item
    (other,) = page.get("/api/search", q=page.get("/api/items", ids=ids[2])[0]["path"])
    assert "guesses" not in other
    assert page.get("/api/similar", id=ids[0]) == [ids[0]]
    assert page.post("/api/train").status_code == 422
    assert folder.answers.standing() == {}


def test_a_run_without_a_finished_round_asks_for_its_pool(
    folder: RunFolder, tmp_path: Path
) -> None:
    (folder.path / "rounds" / "001").rename(tmp_path / "away")
    queue = ReviewQueue(folder, Task())
    assert len(queue.ids) == 30
    (item,) = queue.describe(queue.ids[:1])
    assert item["guesses"] == []
    assert item["measures"] == []
    assert item["reason"] == reason_text(NOT_SCORED)
    for order in Order:
        assert sorted(queue.ordered(order)) == sorted(queue.ids)


def test_runs_without_runner_up_guesses_can_be_reviewed(
    folder: RunFolder,
) -> None:
    last = folder.last_round()
    assert last is not None
    table = last.read_table("scores.parquet")
    runners_up = [name for name in table if "_2" in str(name) or "_3" in str(name)]
    assert len(runners_up) == 4
    table.drop(columns=runners_up).to_parquet(last.path / "scores.parquet")
    PartialRound(last.path, last.number).write_digests()
    queue = ReviewQueue(folder, Task())
    (item,) = queue.describe(queue.ids[:1])
    assert len(item["guesses"]) == 1


def test_an_answer_that_is_undone_leaves_what_the_run_said(folder: RunFolder) -> None:
    """The queue takes the result without answers, so they can be undone without building it."""
    pseudo = annotations_of(folder).query("source == 'pseudo'").iloc[0]
    folder.answers.add(pseudo["id"], "none")
    queue = ReviewQueue(folder, Task())
    folder.answers.add(pseudo["id"], "undo")
    (item,) = queue.describe([pseudo["id"]])
    assert (item["label"], item["source"]) == (pseudo["label"], "pseudo")


def test_every_reason_has_a_text_and_no_reason_has_none() -> None:
    texts = [reason_text(reason) for reason in (*Reason, NOT_SCORED)]
    assert len(set(texts)) == len(texts)
    assert all(texts)
    assert reason_text("") == ""


def entropies(*values: float) -> pd.DataFrame:
    """Rows with these values of every measure that the page shows."""
    names = ("mutual_information", "expected_entropy", "predictive_entropy")
    return pd.DataFrame(dict.fromkeys(names, values))


def test_ranks_are_the_share_that_is_less_uncertain() -> None:
    assert measure_ranks(entropies(0.3, 0.1, 0.2))[:, 2].tolist() == [1.0, 0.0, 0.5]
    shown = shown_measures([0.0, 0.25, 1.0])
    assert [measure["rank"] for measure in shown] == [0.0, 0.25, 1.0]
    assert "25%" in shown[1]["text"]


def test_an_image_that_was_not_scored_has_no_measures_to_show() -> None:
    assert shown_measures(measure_ranks(entropies(np.nan))[0].tolist()) == []
    assert shown_measures(()) == []


def test_the_most_useful_of_many_are_the_first_of_all() -> None:
    rng = np.random.default_rng(0)
    uncertainty = np.where(rng.random(500) < 0.1, np.nan, rng.integers(0, 40, 500) / 40)
    ids = [f"{k:016x}" for k in rng.permutation(500)]
    table = pd.DataFrame({"id": ids, "mutual_information": uncertainty})
    everything = sorted_ids(table, Order.USEFUL)
    for n in (1, 20, 450, 490, 499):
        assert most_useful(table, n) == everything[:n]
