"""The gallery: filters, orders, pages, and what may not be changed there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from review_data import Page, browser_of, serving, wait_until

from surelabel.review.browsing import parse_corners
from surelabel.review.gallery import Gallery, inside_polygon
from surelabel.review.queue import ReviewQueue, Task
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.embedding import Embedding, embedding_key, read_embedding
from surelabel.runs.folder import RunFolder
from surelabel.types import LabelSource
from surelabel.workflows.audit import audit_result, ids_to_check
from surelabel.workflows.certify_labels import ids_to_certify
from surelabel.workflows.embedding import embed, place
from surelabel.workflows.journey import plan_wish
from surelabel.workflows.label import annotations_of
from surelabel.workflows.problem import problem_of


def gallery(page: Page, **query: Any) -> Any:
    return page.get("/api/gallery", **query)


def listed(page: Page, **query: Any) -> list[str]:
    return [item["id"] for item in gallery(page, n=200, **query)["items"]]


def test_every_image_is_there_page_by_page(page: Page) -> None:
    table = annotations_of(page.folder)
    first, second = (gallery(page, sorting="path", offset=k, n=25) for k in (0, 25))
    assert first["total"] == len(table) == 40
    paths = [item["path"] for item in (*first["items"], *second["items"])]
    assert paths == sorted(table["path"])
    labels = {item["id"]: item["label"] for item in (*first["items"], *second["items"])}
    assert labels == dict(zip(table["id"], table["label"], strict=True))


@pytest.mark.parametrize("column", ["label", "source", "reason", "round"])
def test_filters_select_what_the_result_says(page: Page, column: str) -> None:
    table = annotations_of(page.folder)
    counts = page.get("/api/gallery/counts")[column]
    assert counts
    for value, n in counts:
        expected = set(table.loc[table[column] == value, "id"])
        assert set(listed(page, **{column: value})) == expected
        assert len(expected) == n


def test_the_probability_and_the_path_select_too(page: Page) -> None:
    table = annotations_of(page.folder)
    middle = float(table["probability"].median())
    expected = set(table.loc[table["probability"] >= middle, "id"])
    assert set(listed(page, least=middle)) == expected
    assert set(listed(page, text="DOWN-1")) == set(
        table.loc[table["path"].str.contains("down-1"), "id"]
    )


def test_orders_by_how_sure_the_run_is(page: Page) -> None:
    known = annotations_of(page.folder).set_index("id")["probability"]
    scored = set(known.dropna().index)
    unsure = [i for i in listed(page, sorting="unsure") if i in scored]
    assert known[unsure].is_monotonic_increasing
    sure = [i for i in listed(page, sorting="sure") if i in scored]
    assert known[sure].is_monotonic_decreasing


def test_likely_errors_come_first_and_go_once_somebody_looked(page: Page) -> None:
    table = annotations_of(page.folder).set_index("id")
    slips = set(table.index[table["reason"] == "suspicious"])
    accepted = set(table.index[table["source"] == str(LabelSource.PSEUDO)])
    n, found = len(slips), listed(page)
    assert slips
    assert set(found[:n]) == slips
    first = found[n : n + len(accepted)]
    assert set(first) == accepted
    assert table.loc[first, "calibrated"].is_monotonic_increasing
    page.answer(first[0], table["label"][first[0]])
    assert listed(page)[n : n + len(accepted) - 1] == first[1:]


def test_a_correction_is_an_answer_of_a_person(page: Page) -> None:
    (found, *_) = gallery(page, source="pseudo")["items"]
    other = "down" if found["label"] == "across" else "across"
    page.answer(found["id"], other)
    (now,) = [i for i in gallery(page, source="reviewed")["items"] if i["id"] == found["id"]]
    assert (now["label"], now["answer"]["reviewer"]) == (other, "ann")
    row = annotations_of(page.folder).set_index("id").loc[found["id"]]
    assert (row["label"], row["source"]) == (other, "reviewed")
    page.post("/api/undo", answers=[{"id": found["id"], "seq": now["answer"]["seq"]}])
    assert listed(page, source="reviewed") == []
    assert found["id"] in listed(page, source="pseudo", label=found["label"])


def test_a_list_stays_as_it_was_while_somebody_goes_through_it(page: Page) -> None:
    before = gallery(page, source="pseudo")
    first = before["items"][0]
    page.answer(first["id"], None)
    same = gallery(page, source="pseudo", version=before["version"])
    assert [i["id"] for i in same["items"]] == [i["id"] for i in before["items"]]
    assert same["items"][0]["label"] == "none of these"
    assert gallery(page, source="pseudo")["total"] == before["total"] - 1


def test_a_check_keeps_its_images(folder: RunFolder) -> None:
    """What was drawn for a check shows no label of the run, and no label can be given to it."""
    pool = problem_of(folder).pool_ids
    certify = Page(folder, Task(Purpose.CERTIFY, tuple(pool[:3].tolist())))
    assert certify.client.get("/api/gallery").status_code == 422
    for item_id in pool[:3].tolist():
        certify.answer(item_id, "across")
    assert certify.post("/api/result").status_code == 200
    page = Page(RunFolder.open(folder.path))
    kept = {i["id"]: i for i in gallery(page, n=200)["items"] if i["is_kept"]}
    assert set(kept) == set(pool[:3].tolist())
    assert all(not i["guesses"] and i["label"] == "across" for i in kept.values())
    one = {"id": str(pool[0]), "kind": "label", "label": "down", "expected_seq": 0}
    refused = page.post("/api/answers", answers=[one])
    assert refused.status_code == 422
    assert "evidence" in refused.json()["detail"]


def test_an_audit_counts_what_was_accepted_when_it_began(folder: RunFolder) -> None:
    """A correction meanwhile changes neither what is checked nor what is shown about it."""
    ids = ids_to_check(folder, 4).tolist()
    label_of = annotations_of(folder).set_index("id")["label"]
    folder.answers.add(ids[0], AnswerKind.LABEL, str(label_of[ids[0]]), purpose=Purpose.AUDIT)
    before = audit_result(folder)
    page = Page(folder)
    page.answer(ids[1], "across" if label_of[ids[1]] == "down" else "down")
    assert audit_result(folder).all == before.all
    assert ids_to_check(folder, 4).tolist() == ids


def test_the_gallery_is_made_before_anybody_opens_it(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[threading.Thread] = []
    make = ReviewQueue._make_gallery

    def noted(queue: ReviewQueue) -> Gallery:
        made.append(threading.current_thread())
        return make(queue)

    monkeypatch.setattr(ReviewQueue, "_make_gallery", noted)
    with serving(folder) as server, browser_of(server) as client:
        wait_until(lambda: len(made) == 1)
        assert client.get("/api/gallery").json()["total"] == 40
        assert len(made) == 1  # the request made none
        server.session.reload()  # as after a round
        wait_until(lambda: len(made) == 2)
        assert client.get("/api/gallery").json()["total"] == 40
        assert len(made) == 2
    assert threading.main_thread() not in made


def test_the_same_gallery_knows_the_map_once_it_is_drawn(page: Page) -> None:
    everywhere = "-2,-2,2,-2,2,2,-2,2"
    assert listed(page, within=everywhere) == []
    before = page.session.queue.gallery()
    embed(page.folder)
    assert len(listed(page, within=everywhere)) == 40
    assert page.session.queue.gallery() is before


def test_before_the_first_training_there_is_no_gallery(folder: RunFolder) -> None:
    import shutil

    shutil.rmtree(folder.path / "rounds" / "001")
    page = Page(RunFolder.open(folder.path))
    assert not page.get("/api/state")["can_browse"]
    assert page.client.get("/api/gallery").status_code == 422


@pytest.mark.parametrize("query", ["least=2", "round=0", "within=1,2,x", "within=nan,1,2,3", "n=0"])
def test_what_makes_no_sense_is_refused(page: Page, query: str) -> None:
    assert page.client.get(f"/api/gallery?{query}").status_code == 422


# Similar images and the map


def test_similar_images_are_those_that_the_nets_see_alike(page: Page) -> None:
    folder = page.folder
    ids = np.sort(folder.catalog.ids)
    angles = np.linspace(0, 2, len(ids))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)
    xy = np.stack([angles - 1, np.zeros(len(ids))], axis=1)
    Embedding(ids, vectors, xy, len(ids), embedding_key(folder)).save(folder)
    assert listed(page, like=ids[0])[:5] == ids[:5].tolist()
    own = [i for i in ids.tolist() if i in page.ids()]
    assert page.get("/api/similar", id=own[0], n=4) == own[:4]
    assert page.get("/api/queue", order="similar")["ids"][0] in (own[0], own[-1], *own)
    inside = listed(page, within="-2,-1,0,-1,0,1,-2,1")
    assert set(inside) == set(ids[angles < 1].tolist())


def test_the_map_is_drawn_in_the_background_and_kept(page: Page) -> None:
    embed(page.folder, with_map=False)  # the process, which is niced, has only the map to draw
    assert page.get("/api/map")["has_map"] is False
    assert page.post("/api/map").json()["state"] == "running"
    mapper = page.session.browsing.mapper
    wait_until(lambda: mapper.status.state != "running")
    status = page.get("/api/map")
    assert (status["state"], status["is_current"]) == ("finished", True)
    stored = read_embedding(page.folder)
    assert stored is not None
    assert stored.xy is not None
    assert set(stored.ids) == set(page.folder.catalog.ids)
    assert np.abs(stored.xy).max() == pytest.approx(1, abs=1e-5)
    assert len(page.client.get("/api/map/points").content) > 20 * 40
    assert page.post("/api/map").json()["is_current"]
    page.session.close()


def test_an_embedding_is_computed_once_per_round(folder: RunFolder) -> None:
    first = embed(folder, with_map=False)
    stamp = (folder.path / "embedding.npz").stat().st_mtime_ns
    again = embed(folder, with_map=False)
    assert (folder.path / "embedding.npz").stat().st_mtime_ns == stamp
    assert np.array_equal(first.vectors, again.vectors)
    (folder.path / "embedding.npz").write_bytes(b"damaged")
    assert read_embedding(folder) is None
    assert np.array_equal(embed(folder, with_map=False).vectors, first.vectors)


def test_the_map_puts_groups_apart_also_images_beside_the_landmarks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("surelabel.workflows.embedding.MAX_LANDMARKS", 90)
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 60)
    vectors = np.eye(3, 10)[group] + 0.05 * rng.standard_normal((180, 10))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    xy, n_landmarks = place(vectors, seed=0)
    assert n_landmarks == 90
    centers = np.stack([xy[group == k].mean(axis=0) for k in range(3)])
    nearest = np.linalg.norm(xy[:, None] - centers[None], axis=2).argmin(axis=1)
    assert (nearest == group).mean() == 1


def test_a_polygon_holds_what_lies_inside() -> None:
    corners = parse_corners("0,0,4,0,4,4,2,1,0,4")
    points = np.array([[1, 1], [3, 1], [2, 3], [2, 0.5], [5, 1], [-1, 0]], dtype=float)
    assert inside_polygon(points, corners).tolist() == [True, True, False, True, False, False]


def test_labels_that_would_end_a_check_under_way_are_refused(folder: RunFolder) -> None:
    plan_wish(folder, 0.2, 20)
    drawn = ids_to_certify(RunFolder.open(folder.path), 20).tolist()
    page = Page(RunFolder.open(folder.path))
    guessed = [i["id"] for i in gallery(page, n=200)["items"] if i["guesses"]]
    assert not set(drawn) & set(guessed)
    (free, *_) = [i for i in guessed if i in problem_of(folder).pool_ids]
    folder.answers.add(drawn[0], AnswerKind.LABEL, "down", purpose=Purpose.CERTIFY)
    one = {"id": free, "kind": "none", "expected_seq": 0}
    assert page.post("/api/answers", answers=[one]).status_code == 422
    plan_wish(folder, None)
    assert page.post("/api/answers", answers=[one]).status_code == 200
