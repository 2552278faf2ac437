from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from workflow_data import id_of, photos_and_labels, tiny

import surelabel
from surelabel.api import Run
from surelabel.dataset.build import build_catalog
from surelabel.errors import LabelsError
from surelabel.export.columns import unanswered_annotations, with_answers
from surelabel.runs.answers import AnswerKind, AnswerStore
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import PartialRound
from surelabel.selftraining.events import Event, RoundProgress
from surelabel.types import NONE_TEXT
from surelabel.workflows.label import Listeners
from surelabel.workflows.problem import build_problem, problem_of


@pytest.fixture(name="finished", scope="module")
def fixture_finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("place")
    photos, labels = photos_and_labels(place)
    config = tiny(place / "cache", max_rounds=1, steps=8)
    return surelabel.label(photos, labels, place / "run", config=config)


@pytest.fixture(name="run")
def fixture_run(finished: Run, tmp_path: Path) -> Run:
    """A copy of the finished run, to do things to."""
    shutil.copytree(finished.path, tmp_path / "run")
    return surelabel.open_run(tmp_path / "run")


def answer(run: Run, path: str, label: str | None = None, kind: str = "label") -> int:
    return run.folder.answers.add(id_of(run.folder, path), kind, label, reviewer="ann")


def row(run: Run, path: str) -> dict[str, Any]:
    table = run.annotations
    (found,) = table[table["path"] == path].to_dict("records")
    return {str(column): value for column, value in found.items()}


def scores(run: Run, number: int) -> pd.DataFrame:
    return pd.read_parquet(run.path / "rounds" / f"{number:03d}" / "scores.parquet")


def last_pool(run: Run) -> set[str]:
    return set(scores(run, len(run.rounds))["id"])


def rewrite_digests(run: Run, number: int) -> None:
    PartialRound(run.path / "rounds" / f"{number:03d}", number).write_digests()


def trained_on(folder: RunFolder) -> dict[str, str]:
    """The human labels that the next round is trained on, by path."""
    problem, catalog = problem_of(folder), folder.catalog
    paths = catalog.paths[catalog.rows(problem.human_ids)].tolist()
    return dict(zip(paths, [problem.classes[k] for k in problem.human_labels], strict=True))


def test_an_answer_is_in_the_result_at_once_and_trained_on_in_the_next_round(run: Run) -> None:
    answer(run, "down-10.png", "across")
    now = row(run, "down-10.png")
    assert (now["label"], now["source"], now["round"]) == ("across", "reviewed", 0)
    assert now["weight"] == 1.0
    assert trained_on(run.folder)["down-10.png"] == "across"
    assert not run.summary.is_finished
    run.resume()
    assert [m.n_human for m in run.rounds] == [10, 11]
    assert [m.n_pool for m in run.rounds] == [30, 29]
    assert id_of(run.folder, "down-10.png") not in last_pool(run)
    later = row(run, "down-10.png")
    assert (later["label"], later["source"]) == ("across", "reviewed")
    assert run.summary.n_human == 11


def test_an_answer_wins_over_a_given_label(run: Run) -> None:
    answer(run, "across-01.png", "down")
    assert trained_on(run.folder)["across-01.png"] == "down"
    run.resume()
    assert run.rounds[-1].n_human == 10
    assert row(run, "across-01.png")["label"] == "down"
    assert row(run, "across-01.png")["source"] == "reviewed"


def test_an_image_of_no_class_is_neither_trained_on_nor_labeled(run: Run) -> None:
    answer(run, "across-02.png", kind="none")
    answer(run, "down-12.png", kind="none")
    run.resume()
    assert run.rounds[-1].n_human == 9
    assert run.rounds[-1].n_pool == 29
    assert id_of(run.folder, "down-12.png") not in last_pool(run)
    for path in ("across-02.png", "down-12.png"):
        assert row(run, path)["label"] == NONE_TEXT
        assert row(run, path)["source"] == "reviewed"


def test_an_answer_that_decides_nothing_starts_no_round(run: Run) -> None:
    before = run.annotations
    answer(run, "down-10.png", kind="unsure")
    run.resume()
    assert len(run.rounds) == 1
    assert_frame_equal(run.annotations, before)


def test_an_answer_taken_back_is_as_if_it_had_never_been(run: Run) -> None:
    before = run.annotations
    answer(run, "down-10.png", "across")
    answer(run, "down-10.png", kind="undo")
    assert_frame_equal(run.annotations, before)
    run.resume()
    assert len(run.rounds) == 1


def test_an_answer_given_during_a_round_is_used_in_the_next_round_only(
    finished: Run, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    heard: list[Event] = []

    def review(event: Event) -> None:
        if isinstance(event, RoundProgress) and not heard:
            heard.append(event)
            answer(surelabel.open_run(out), "down-10.png", "across")

    place = finished.path.parent
    run = surelabel.label(
        place / "photos",
        place / "labels.csv",
        out,
        config=finished.config,
        listeners=Listeners(on_event=review),
    )
    assert [m.answers_upto for m in run.rounds] == [0, 1]
    assert [m.n_human for m in run.rounds] == [10, 11]
    assert_frame_equal(scores(run, 1), scores(finished, 1))


def test_an_answer_given_after_a_crash_waits_for_the_round_that_had_begun(
    finished: Run, tmp_path: Path
) -> None:
    def crash(event: Event) -> None:
        if isinstance(event, RoundProgress):
            raise KeyboardInterrupt

    place, out = finished.path.parent, tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        surelabel.label(
            place / "photos",
            place / "labels.csv",
            out,
            config=finished.config,
            listeners=Listeners(on_event=crash),
        )
    answer(surelabel.open_run(out), "down-10.png", "across")
    run = surelabel.resume(out)
    assert [m.answers_upto for m in run.rounds] == [0, 1]
    assert [m.n_human for m in run.rounds] == [10, 11]


def test_a_class_that_an_answer_brings_moves_no_label_to_another_class(run: Run) -> None:
    for path in ("across-08.png", "across-09.png", "down-08.png"):
        answer(run, path, "zebra")
    run.resume()
    assert list(run.rounds[-1].classes) == ["across", "down", "zebra"]
    # "mango" comes before "zebra", and the tables of the round before hold numbers.
    pool = scores(run, 2)
    forged = pool.assign(guess=2, label=2, accepted=True, round=2, weight=1.0)
    forged.to_parquet(run.path / "rounds" / "002" / "scores.parquet", index=False)
    rewrite_digests(run, 2)
    answer(run, "down-09.png", "mango")
    assert list(problem_of(run.folder).classes) == ["across", "down", "mango", "zebra"]
    table = run.annotations
    assert set(table.loc[table["source"] == "pseudo", "label"]) == {"zebra"}
    assert row(run, "down-09.png")["label"] == "mango"
    pool.to_parquet(run.path / "rounds" / "002" / "scores.parquet", index=False)
    rewrite_digests(run, 2)
    run.resume()
    assert list(run.rounds[-1].classes) == ["across", "down", "mango", "zebra"]
    assert {row(run, f"across-{n:02d}.png")["label"] for n in (8, 9)} == {"zebra"}


def test_answers_about_unknown_images_are_passed_over(run: Run) -> None:
    run.folder.answers.add("nobody", AnswerKind.LABEL, "across")
    before = problem_of(run.folder)
    assert "nobody" not in before.human_ids.tolist()
    assert len(run.annotations) == 40


def test_the_digest_of_the_inputs_depends_on_labels_and_answers_alone(run: Run) -> None:
    catalog, answers = run.folder.catalog, run.folder.answers
    plain = build_problem(catalog, {}, 0)
    assert build_problem(catalog, {}, 7).inputs == plain.inputs
    answer(run, "down-10.png", kind="unsure")
    assert build_problem(catalog, answers.standing(), 1).inputs == plain.inputs
    answer(run, "down-11.png", "down")
    once = build_problem(catalog, answers.standing(), 2)
    assert once.inputs != plain.inputs
    answer(run, "down-11.png", "across")
    assert build_problem(catalog, answers.standing(), 3).inputs != once.inputs


def test_every_image_is_in_exactly_one_part_of_the_problem(run: Run) -> None:
    answer(run, "down-10.png", "across")
    answer(run, "down-11.png", kind="none")
    problem = problem_of(run.folder)
    assert problem.cross_fit
    parts = [problem.human_ids, problem.pool_ids]
    every = np.concatenate(parts).tolist()
    assert len(every) == len(set(every)) == 39
    assert set(run.folder.catalog.ids.tolist()) - set(every) == {id_of(run.folder, "down-11.png")}


def test_the_result_is_built_once_and_again_only_after_a_change(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    joined: list[int] = []
    answered: list[int] = []

    def count_joined(*arguments: Any) -> pd.DataFrame:
        joined.append(1)
        return unanswered_annotations(*arguments)

    def count_answered(*arguments: Any) -> pd.DataFrame:
        answered.append(1)
        return with_answers(*arguments)

    monkeypatch.setattr("surelabel.workflows.label.unanswered_annotations", count_joined)
    monkeypatch.setattr("surelabel.workflows.label.with_answers", count_answered)
    run.resume()  # copied from another place: the result is written again
    answered.clear()
    joined.clear()
    before = run.annotations
    assert run.summary.n_human == 10
    run.export("csv", tmp_path / "all.csv")
    assert not answered
    answer(run, "down-10.png", "across")
    assert row(run, "down-10.png")["label"] == "across"
    assert run.summary.n_human == 11
    assert answered
    assert not joined
    answer(run, "down-10.png", kind="undo")
    assert_frame_equal(run.annotations, before)


def test_an_answer_after_the_last_round_is_in_the_export(run: Run, tmp_path: Path) -> None:
    answer(run, "down-10.png", "across")
    run.export("parquet", tmp_path / "all.parquet")
    table = pd.read_parquet(tmp_path / "all.parquet").set_index("path")
    assert table.loc["down-10.png", "label"] == "across"
    assert table.loc["down-10.png", "source"] == "reviewed"


def test_answers_never_set_thresholds(run: Run) -> None:
    answer(run, "down-10.png", "across")
    problem = problem_of(run.folder)
    answered = problem.human_ids[-1]
    assert answered not in problem.tune_ids
    run.resume()
    held_out = run.folder.last_round()
    assert held_out is not None
    assert answered not in set(held_out.read_table("tune.parquet")["id"])


def test_held_out_images_stay_so_and_nothing_tied_to_them_is_trained_on(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    images[41] = images[11]
    images[43] = images[3]
    table = pd.DataFrame({"index": range(60), "label": ["ant", "bee"] * 30})
    table.loc[20:, "label"] = ""
    table["split"] = ["train"] * 10 + ["tune"] * 10 + [""] * 40
    groups = {12: "video", 42: "video", 14: "film", 43: "film"}
    table["group"] = [groups.get(i, "") for i in range(60)]
    catalog = build_catalog(images, table, seed=0, cache=tmp_path / "cache")
    numbers = [int(path.rsplit(":", 1)[1]) for path in catalog.paths]
    place = dict(zip(numbers, catalog.ids.tolist(), strict=True))
    store = AnswerStore.create(tmp_path / "answers.sqlite")
    for image, label in ((3, "ant"), (10, "bee"), (41, "bee"), (42, "ant"), (50, "ant")):
        store.add(place[image], "label", label)
    store.add(place[13], "none", None)
    problem = build_problem(catalog, store.standing(), 4)
    assert not problem.cross_fit
    held_out = dict(zip(problem.tune_ids.tolist(), problem.tune_labels.tolist(), strict=True))
    assert held_out[place[10]] == problem.classes.index("bee")
    assert place[13] not in held_out
    assert len(held_out) == 9
    assert set(problem.human_ids) == {place[i] for i in (*range(10), 50)}
    assert not {place[i] for i in (10, 13, 41, 42, 50)} & set(problem.pool_ids.tolist())


def test_a_label_added_against_an_answer_is_refused_or_wins(run: Run, tmp_path: Path) -> None:
    answer(run, "down-10.png", "across")
    table = tmp_path / "more.csv"
    table.write_text("path,label\ndown-10.png,down\n")
    with pytest.raises(LabelsError, match=r"'down-10\.png'.*'down'.*--overwrite"):
        run.add(labels=table)
    assert row(run, "down-10.png")["label"] == "across"
    run.add(labels=table, overwrite=True)
    assert row(run, "down-10.png")["label"] == "down"
    assert trained_on(run.folder)["down-10.png"] == "down"
    table.write_text("path,label\ndown-10.png,none of these\n")
    run.add(labels=table, overwrite=True)
    assert row(run, "down-10.png")["label"] == NONE_TEXT
    assert "down-10.png" not in trained_on(run.folder)
