from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from review_data import Page
from workflow_data import id_of

from surelabel.review.queue import Desk, Order, Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.label import annotations_of


@pytest.fixture(name="desk")
def fixture_desk(folder: RunFolder) -> Desk:
    return Desk(folder, Task())


def left(folder: RunFolder) -> set[str]:
    table = annotations_of(folder)
    return set(table.loc[table["source"] == "", "id"])


def test_what_the_run_left_is_asked(desk: Desk, folder: RunFolder) -> None:
    assert set(desk.ids) == left(folder)
    assert len(desk.ids) > 10


@pytest.mark.parametrize("order", list(Order))
def test_every_order_has_every_image_once_and_is_repeatable(
    desk: Desk, folder: RunFolder, order: Order
) -> None:
    ids = desk.ordered(order)
    assert sorted(ids) == sorted(desk.ids)
    assert ids == Desk(folder, Task()).ordered(order)


def test_most_useful_is_where_the_nets_disagree_most(desk: Desk, folder: RunFolder) -> None:
    table = annotations_of(folder).set_index("id")
    shown = table.loc[desk.ordered(Order.USEFUL), "mutual_information"].to_numpy()
    assert (np.diff(shown) <= 0).all()


@pytest.mark.parametrize("order", [Order.REASON, Order.CLASS])
def test_orders_by_reason_and_class_keep_them_together(desk: Desk, order: Order) -> None:
    items = desk.describe(desk.ordered(order))
    keys = [i["reason"] if order is Order.REASON else i["guesses"][0]["label"] for i in items]
    changes = sum(a != b for a, b in pairwise(keys))
    assert changes == len(set(keys)) - 1


def test_guesses_are_probabilities_in_falling_order(desk: Desk) -> None:
    for item in desk.describe(desk.ids):
        shares = [guess["probability"] for guess in item["guesses"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert {guess["label"] for guess in item["guesses"]} == {"across", "down"}


def test_every_image_has_a_reason_and_measures_in_words(desk: Desk) -> None:
    for item in desk.describe(desk.ids):
        assert item["reason"].endswith(".")
        assert len(item["gauges"]) == 3
        assert all(0 <= gauge["rank"] <= 1 for gauge in item["gauges"])


def test_what_people_settled_before_the_last_round_is_not_asked_again(
    desk: Desk, folder: RunFolder
) -> None:
    given = id_of(folder, "down-00.png")
    assert given not in desk.ids
    item_id = desk.ids[0]
    folder.answers.add(item_id, "label", "down")
    assert item_id in Desk(folder, Task()).ids
    assert set(Desk(folder, Task()).answered()) == {item_id}


def test_counts_follow_the_answers(desk: Desk, folder: RunFolder) -> None:
    before = desk.counts()
    assert before["across"]["people"] == before["down"]["people"] == 5
    folder.answers.add(desk.ids[0], "label", "down")
    folder.answers.add(id_of(folder, "across-00.png"), "label", "down")
    after = desk.counts()
    assert (after["across"]["people"], after["down"]["people"]) == (4, 7)
    assert after["down"]["run"] == before["down"]["run"]


def test_a_run_label_that_a_person_changed_is_the_persons(desk: Desk, folder: RunFolder) -> None:
    table = annotations_of(folder)
    pseudo = table[table["source"] == "pseudo"].iloc[0]
    before = desk.counts()
    folder.answers.add(pseudo["id"], "none")
    after = desk.counts()
    assert after[pseudo["label"]]["run"] == before[pseudo["label"]]["run"] - 1


def test_look_alikes_begin_with_the_image_and_leave_out_what_is_answered(
    desk: Desk, folder: RunFolder
) -> None:
    first, done = desk.ids[0], desk.ids[1]
    folder.answers.add(done, "none")
    found = desk.look_alikes(first, 100)
    assert found[0] == first
    assert set(found) == set(desk.ids) - {done}
    assert len(desk.look_alikes(first, 5)) == 5
    assert desk.look_alikes("0" * 16, 5) == []


def test_search_finds_parts_of_paths_as_they_are(desk: Desk) -> None:
    assert [i["path"] for i in desk.search("ACROSS-07")] == ["across-07.png"]
    assert len(desk.search(".png")) == 40
    assert desk.search("a.*") == desk.search(" ") == []


def test_a_blind_desk_keeps_the_order_and_hides_the_label_until_answered(
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
    assert page.get("/api/alike", id=ids[0]) == [ids[0]]
    assert page.post("/api/train").status_code == 422
    assert folder.answers.standing() == {}


def test_a_run_without_a_finished_round_asks_for_its_pool(
    folder: RunFolder, tmp_path: Path
) -> None:
    (folder.path / "rounds" / "001").rename(tmp_path / "away")
    desk = Desk(folder, Task())
    assert len(desk.ids) == 30
    (item,) = desk.describe(desk.ids[:1])
    assert item["guesses"] == item["gauges"] == []
    assert "No round" in item["reason"]
    for order in Order:
        assert sorted(desk.ordered(order)) == sorted(desk.ids)


def test_runs_from_before_the_further_guesses_were_kept_can_be_reviewed(
    folder: RunFolder,
) -> None:
    last = folder.last_round()
    assert last is not None
    table = last.read_table("scores.parquet")
    further = [name for name in table if "_2" in str(name) or "_3" in str(name)]
    assert len(further) == 4
    table.drop(columns=further).to_parquet(last.path / "scores.parquet")
    desk = Desk(folder, Task())
    (item,) = desk.describe(desk.ids[:1])
    assert len(item["guesses"]) == 1
