from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from workflow_data import (
    StopAt,
    id_of,
    photos_and_labels,
    stripes,
    tiny,
    truth,
    write_labels,
    write_stripes,
)

import surelabel
from surelabel.api import Run
from surelabel.config.choices import Mode
from surelabel.config.settings import Config
from surelabel.dataset.build import build_catalog
from surelabel.dataset.duplicates import contradictions
from surelabel.errors import InputError, OptionError, RunDamagedError, RunError
from surelabel.export.columns import COLUMNS
from surelabel.messages.run import contradiction_sentence, fewer_sentence, predict_sentence
from surelabel.runs.answers import AnswerKind
from surelabel.selftraining.events import Advice, Event, RoundProgress, RoundStarted, RunFinished
from surelabel.types import LabelSource, Progress, StopReason
from surelabel.workflows.label import Listeners


class Place:
    """A finished run on disk, with the images, labels and cache it was made from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.photos, self.labels = photos_and_labels(path)
        self.cache = path / "cache"
        (self.photos / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
        self.run = surelabel.label(self.photos, self.labels, path / "run", config=tiny(self.cache))


@pytest.fixture(name="place", scope="module")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.fixture(name="run")
def fixture_run(place: Place, tmp_path: Path) -> Run:
    """A copy of the finished run, to do things to."""
    shutil.copytree(place.run.path, tmp_path / "run")
    return surelabel.open_run(tmp_path / "run")


def by_path(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index("path")


def pool_of(table: pd.DataFrame) -> pd.DataFrame:
    return table[~table["source"].isin([LabelSource.GIVEN, LabelSource.REVIEWED])]


def test_the_result_has_one_row_for_each_image_and_the_columns_of_the_contract(
    place: Place,
) -> None:
    table = place.run.annotations
    assert tuple(table.columns) == COLUMNS
    assert COLUMNS[:10] == (
        *("id", "path", "label", "guess", "source"),
        *("round", "probability", "score", "threshold", "weight"),
    )
    readable = {p.name for p in place.photos.iterdir()} - {"broken.png"}
    assert sorted(table["path"]) == sorted(readable)
    assert table["id"].is_unique


def test_given_labels_are_in_the_result_as_they_were_given(place: Place) -> None:
    given = pd.read_csv(place.labels).set_index("path")["label"]
    table = by_path(place.run.annotations)
    rows = table.loc[given.index]
    assert rows["label"].tolist() == given.tolist()
    assert set(rows["source"]) == {"given"}
    assert set(rows["round"]) == {0}
    assert set(rows["weight"]) == {1.0}
    assert set(table.index[table["source"] == "given"]) == set(given.index)


def test_every_other_image_has_a_guess_and_a_label_exactly_where_it_was_accepted(
    place: Place,
) -> None:
    pool = pool_of(place.run.annotations)
    assert len(pool) == 30
    accepted = pool["source"] == "pseudo"
    assert accepted.any()
    assert set(pool["guess"]) <= {"across", "down"}
    assert (pool["label"] == pool["guess"].where(accepted, "")).all()
    assert (pool["score"] <= pool["threshold"]).equals(accepted)
    assert pool.loc[accepted, "round"].between(1, 2).all()
    assert (pool.loc[~accepted, ["round", "weight"]] == 0).all(axis=None)
    assert (pool["guess"] == pool["path"].map(truth)).mean() > 0.8, "it learned something"


def test_the_stored_result_is_the_result(place: Place) -> None:
    stored = pd.read_parquet(place.run.path / "annotations.parquet")
    assert_frame_equal(stored, place.run.annotations)


def test_the_stored_settings_are_the_settings_that_were_used(place: Place) -> None:
    config = tiny(place.cache).replace(net="compact").in_effect(pretrained=False)
    assert place.run.config == config
    assert Config.from_toml(place.run.path / "config.toml") == config
    assert surelabel.open_run(place.run.path).config == config


def test_options_can_be_given_by_name(place: Place, tmp_path: Path) -> None:
    config = tiny(place.cache, max_rounds=1, steps=2)
    run = surelabel.label(
        place.photos, place.labels, tmp_path / "run", config=config, mode="keep", seed=8
    )
    expected = config.replace(mode=Mode.KEEP, seed=8, net="compact")
    assert run.config == expected.in_effect(pretrained=False)


def test_what_the_machine_was_is_noted(place: Place) -> None:
    about = json.loads((place.run.path / "run.json").read_text())
    assert about["threads"] == 1
    assert about["seed"] == 3
    assert about["torch"]
    assert about["images"] == str(place.photos)


def test_an_image_that_cannot_be_read_is_listed_and_the_run_goes_on(place: Place) -> None:
    with (place.run.path / "skipped.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == ["broken.png"]
    assert rows[0]["reason"]
    assert place.run.summary.n_skipped == 1


def test_the_summary_counts_the_rows_of_the_result(place: Place) -> None:
    summary, table = place.run.summary, place.run.annotations
    assert summary.n_images == 40
    assert summary.n_human == 10
    assert summary.n_labeled == (table["source"] == "pseudo").sum()
    assert summary.n_images == summary.n_human + summary.n_labeled + summary.n_left
    assert summary.classes == ("across", "down")
    assert summary.cross_fit
    assert summary.is_finished
    assert summary.stop_reason is StopReason.ROUND_LIMIT
    assert [m.number for m in summary.rounds] == [1, 2]
    assert sum(c["human"] for c in summary.counts.values()) == summary.n_human
    assert sum(c["labeled"] for c in summary.counts.values()) == summary.n_labeled
    assert sum(c["left"] for c in summary.counts.values()) == summary.n_left
    plain = json.loads(json.dumps(summary.to_json(), allow_nan=False))
    assert plain["finished"] is True
    assert plain["rounds"][1]["n_accepted"] == summary.n_labeled


def test_the_same_seed_gives_the_same_result_and_another_seed_another(
    place: Place, tmp_path: Path
) -> None:
    def label(name: str, seed: int) -> pd.DataFrame:
        config = tiny(place.cache, seed=seed)
        return surelabel.label(
            place.photos, place.labels, tmp_path / name, config=config
        ).annotations

    assert_frame_equal(label("again", 3), place.run.annotations)
    other = label("other", 4)
    assert other["score"].dropna().tolist() != place.run.annotations["score"].dropna().tolist()


def test_the_same_pixels_get_the_same_guess_outside_the_run(place: Place, tmp_path: Path) -> None:
    pool = by_path(pool_of(place.run.annotations))
    more = tmp_path / "more"
    more.mkdir()
    for path in pool.index:
        shutil.copy(place.photos / path, more / f"copy-of-{path}")
    new = place.run.predict(more)
    assert tuple(new.columns) == COLUMNS
    assert len(new) == len(pool)
    new.index = pd.Index(new["path"].str.removeprefix("copy-of-"), name="path")
    new = new.loc[pool.index]
    assert new["guess"].tolist() == pool["guess"].tolist()
    assert new["label"].tolist() == pool["label"].tolist()
    assert new["source"].tolist() == pool["source"].tolist()
    for column in COLUMNS[6:8] + COLUMNS[10:]:
        assert new[column].to_numpy() == pytest.approx(pool[column].to_numpy(), abs=1e-6)
    assert set(new["threshold"]) == {place.run.rounds[-1].threshold}


def test_a_run_s_own_images_have_not_drifted(tmp_path: Path) -> None:
    photos, labels = photos_and_labels(tmp_path, n=60, n_labeled=45)
    config = tiny(tmp_path / "cache", max_rounds=1, out_of_distribution=True)
    run = surelabel.label(photos, labels, tmp_path / "run", config=config)
    assert run.predict(photos).attrs["drift"] == {}
    write_stripes(tmp_path / "others", "plain", range(30))
    assert "distance" in run.predict(tmp_path / "others").attrs["drift"]


def test_new_images_do_not_change_the_run(place: Place, tmp_path: Path) -> None:
    before = place.run.annotations
    write_stripes(tmp_path / "new", "across", range(90, 93))
    assert len(place.run.predict(tmp_path / "new")) == 3
    assert_frame_equal(place.run.annotations, before)


def test_images_that_cannot_be_read_are_not_predicted(place: Place, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "broken.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=str(tmp_path / "new")):
        place.run.predict(tmp_path / "new")


def test_resuming_a_finished_run_does_nothing_but_report_why(run: Run) -> None:
    before = run.annotations
    files = sorted(p for p in run.path.rglob("*") if p.is_file())
    events: list[Event] = []
    assert run.resume(Listeners(on_event=events.append)) is run
    assert events == [RunFinished(StopReason.ROUND_LIMIT, 2)]
    assert sorted(p for p in run.path.rglob("*") if p.is_file()) == files
    assert_frame_equal(run.annotations, before)


def test_a_run_is_not_written_over(place: Place) -> None:
    with pytest.raises(RunError, match="resume"):
        surelabel.label(place.photos, place.labels, place.run.path, config=tiny(place.cache))


def test_a_wrong_rule_is_refused_before_anything_is_read(place: Place, tmp_path: Path) -> None:
    progress: list[Progress] = []
    with pytest.raises(OptionError, match="tukey"):
        surelabel.label(
            place.photos,
            place.labels,
            tmp_path / "run",
            config=tiny(place.cache),
            listeners=Listeners(on_progress=progress.append),
            accept="best",
        )
    assert progress == []
    assert not (tmp_path / "run").exists()


def test_new_images_labels_and_a_new_class_are_learned(
    run: Run, place: Place, tmp_path: Path
) -> None:
    plain = write_stripes(tmp_path / "more", "plain", range(16))
    labels = write_labels(tmp_path / "new.csv", [*plain[:6], "across-15.png"])
    given = pd.read_csv(place.labels)
    added = run.add(tmp_path / "more", labels)
    assert (added.images, added.labels, added.changed) == (16, 7, 0)
    assert added.classes == ("plain",)
    waiting = by_path(run.annotations)
    assert len(waiting) == 56
    assert waiting.loc["across-15.png", "source"] == "given"
    assert not run.summary.is_finished
    run.resume()
    assert [m.number for m in run.rounds] == [1, 2, 3, 4]
    assert run.rounds[-1].classes == ("across", "down", "plain")
    assert run.rounds[-1].n_human == 17
    table = by_path(run.annotations)
    assert (table.loc[plain[6:], "guess"] == "plain").mean() > 0.7
    assert table.loc[given["path"], "label"].tolist() == given["label"].tolist()
    write_stripes(tmp_path / "later", "plain", range(50, 60))
    assert (run.predict(tmp_path / "later")["guess"] == "plain").mean() > 0.7


def test_adding_what_is_known_starts_no_round(run: Run, place: Place) -> None:
    added = run.add(place.photos, place.labels)
    assert (added.images, added.labels, added.changed, added.classes) == (0, 0, 0, ())
    run.resume()
    assert len(run.rounds) == 2


def test_a_given_label_changes_only_with_overwrite(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("path,label\nacross-00.png,down\n")
    with pytest.raises(InputError, match=r"across-00\.png"):
        run.add(labels=other)
    assert run.add(labels=other, overwrite=True).changed == 1
    assert by_path(run.annotations).loc["across-00.png", "label"] == "down"


def test_an_unfinished_round_begins_again_after_something_was_added(
    place: Place, tmp_path: Path
) -> None:
    """The first of two members is on disk, trained on two classes; then a third class comes."""
    out = tmp_path / "run"
    # Out of fold there are two members, and each reports twice.
    with pytest.raises(KeyboardInterrupt):
        surelabel.label(
            place.photos,
            place.labels,
            out,
            config=tiny(place.cache, max_rounds=1, steps=8),
            listeners=Listeners(on_event=StopAt(1, 3)),
        )
    assert (out / "rounds" / "001.partial" / "weights-0.safetensors").exists()
    run = surelabel.open_run(out)
    plain = write_stripes(tmp_path / "more", "plain", range(8))
    run.add(tmp_path / "more", write_labels(tmp_path / "new.csv", plain[:4]))
    starts: list[Event] = []
    run.resume(Listeners(on_event=starts.append))
    assert [e.n_human for e in starts if isinstance(e, RoundStarted)] == [14]
    assert run.rounds[0].classes == ("across", "down", "plain")


def test_a_run_without_a_round_has_labels_by_people_and_predicts_nothing(
    place: Place, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        surelabel.label(
            place.photos,
            place.labels,
            tmp_path / "run",
            config=tiny(place.cache),
            listeners=Listeners(on_event=StopAt(1, 1)),
        )
    run = surelabel.open_run(tmp_path / "run")
    table = run.annotations
    assert tuple(table.columns) == COLUMNS
    assert set(table["source"]) == {"given", ""}
    assert not run.summary.is_finished
    with pytest.raises(RunError, match="resume"):
        run.predict(place.photos)


@pytest.mark.parametrize(("number", "call"), [(1, 2), (1, 7), (2, 1), (2, 5)])
def test_an_interrupted_run_ends_as_the_uninterrupted_one_though_the_cache_is_gone(
    place: Place, tmp_path: Path, number: int, call: int
) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        surelabel.label(
            place.photos,
            place.labels,
            tmp_path / "run",
            config=tiny(cache),
            listeners=Listeners(on_event=StopAt(number, call)),
        )
    assert len(surelabel.open_run(tmp_path / "run").rounds) == number - 1
    shutil.rmtree(cache)
    progress: list[Progress] = []
    run = surelabel.resume(tmp_path / "run", Listeners(on_progress=progress.append))
    assert {p.what for p in progress} == {"reading images"}, "they are decoded again"
    assert_frame_equal(run.annotations, place.run.annotations)


def test_a_damaged_round_is_refused_by_the_name_of_its_file(run: Run) -> None:
    weights = run.path / "rounds" / "002" / "weights-0.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00\x01")
    with pytest.raises(RunDamagedError, match=r"weights-0\.safetensors"):
        run.resume()


def test_a_run_that_accepts_nothing_ends_after_empty_rounds(place: Place, tmp_path: Path) -> None:
    config = tiny(place.cache, steps=1, accept="confidence:1", stop_after_empty=2, max_rounds=9)
    run = surelabel.label(place.photos, place.labels, tmp_path / "run", config=config)
    summary = run.summary
    assert (summary.n_labeled, summary.n_left) == (0, 30)
    assert summary.stop_reason is StopReason.NONE_ACCEPTED
    assert [m.threshold for m in run.rounds] == [-math.inf] * 2
    assert set(pool_of(run.annotations)["label"]) == {""}
    json.dumps(summary.to_json(), allow_nan=False)
    assert set(run.predict(place.photos)["label"]) == {""}


@pytest.mark.parametrize("mode", Mode)
def test_top_n_labels_n_more_each_round_on_real_files(
    place: Place, tmp_path: Path, mode: Mode
) -> None:
    config = tiny(place.cache, accept="top:10", mode=mode)
    run = surelabel.label(place.photos, place.labels, tmp_path / "run", config=config)
    assert [m.n_accepted for m in run.rounds] == [10, 20]
    table = run.annotations
    labeled = table[table["source"] == "pseudo"]
    assert len(labeled) == 20
    assert set(labeled["round"]) == {1, 2}


def test_keep_mode_keeps_what_was_accepted_on_real_files(place: Place, tmp_path: Path) -> None:
    config = tiny(place.cache, accept="q2", mode=Mode.KEEP, max_rounds=3)
    run = surelabel.label(place.photos, place.labels, tmp_path / "run", config=config)
    tables = [
        pd.read_parquet(run.path / "rounds" / f"{n:03d}" / "scores.parquet").set_index("id")
        for n in (1, 2, 3)
    ]
    for before, after in itertools.pairwise(tables):
        kept = before[before["accepted"]]
        assert len(kept)
        assert_frame_equal(after.loc[kept.index], kept)


def test_certify_images_go_through_the_loop_as_part_of_the_pool(
    place: Place, tmp_path: Path
) -> None:
    lines = [f"{name}-{n:02d}.png,{name}," for name in ("across", "down") for n in range(5)]
    hidden = ["across-06.png", "across-07.png", "down-06.png"]
    # One of them has a wrong label, which the run cannot know.
    given = {**{path: truth(path) for path in hidden}, "across-07.png": "down"}
    lines += [f"{path},{label},certify" for path, label in given.items()]
    labels = write_labels(tmp_path / "labels.csv", lines, "path,label,split")
    config = tiny(place.cache, accept="quantile:1", steps=8, consistency=1.0)
    run = surelabel.label(place.photos, labels, tmp_path / "run", config=config)
    scores = pd.read_parquet(run.path / "rounds" / "002" / "scores.parquet")
    ids = {path: id_of(run.folder, path) for path in hidden}
    assert set(ids.values()) <= set(scores["id"])
    assert run.rounds[0].n_human == 10
    assert run.rounds[0].n_held_out == 10
    assert run.rounds[0].n_pool == 30
    table = by_path(run.annotations).loc[hidden]
    assert table["label"].tolist() == list(given.values())
    assert set(table["source"]) == {"given"}
    assert table["guess"].notna().all()
    without = write_labels(
        tmp_path / "without.csv", [n for n in lines if "certify" not in n], "path,label,split"
    )
    blind = surelabel.label(place.photos, without, tmp_path / "blind", config=config)
    same = pd.read_parquet(blind.path / "rounds" / "002" / "scores.parquet")
    order = ["id"]
    assert_frame_equal(
        scores.sort_values(order, ignore_index=True), same.sort_values(order, ignore_index=True)
    )


def test_a_tune_split_is_held_out_and_predicted(place: Place, tmp_path: Path) -> None:
    lines = [
        f"{name}-{n:02d}.png,{name},{'train' if n < 6 else 'tune'}"
        for name in ("across", "down")
        for n in range(12)
    ]
    labels = write_labels(tmp_path / "labels.csv", lines, "path,label,split")
    run = surelabel.label(place.photos, labels, tmp_path / "run", config=tiny(place.cache, steps=4))
    assert not run.summary.cross_fit
    assert [(m.n_human, m.n_held_out, m.n_pool) for m in run.rounds] == [(12, 12, 16)] * 2
    table = by_path(run.annotations)
    tune = table.loc[[line.split(",")[0] for line in lines if line.endswith("tune")]]
    assert tune["label"].tolist() == [truth(path) for path in tune.index]
    assert tune["guess"].notna().all()
    assert set(tune["weight"]) == {1.0}


def test_an_image_with_the_bytes_of_a_labeled_one_gets_its_label(tmp_path: Path) -> None:
    photos, labels = photos_and_labels(tmp_path)
    stripes("across", 0).save(photos / "another.png")
    config = tiny(tmp_path / "cache", max_rounds=1, steps=4)
    run = surelabel.label(photos, labels, tmp_path / "run", config=config)
    row = by_path(run.annotations).loc["another.png"]
    assert (row["label"], row["source"]) == ("across", "copied")
    assert run.rounds[0].n_pool == 30


def test_arrays_are_labeled_as_files_are(tmp_path: Path) -> None:
    names = ["across", "down"] * 16
    array = np.stack([np.asarray(stripes(name, n)) for n, name in enumerate(names)])
    labels = np.where(np.arange(32) < 10, np.arange(32) % 2, -1)
    config = tiny(tmp_path / "cache", max_rounds=1, steps=4)
    run = surelabel.label(array, labels, tmp_path / "run", config=config)
    assert len(run.annotations) == 32
    assert (run.annotations["source"] == "given").sum() == 10
    guess = run.predict(array[10:])["guess"].tolist()
    assert guess == run.annotations["guess"][10:].tolist()


def test_events_and_progress_reach_the_listeners(place: Place, tmp_path: Path) -> None:
    progress, events = list[Progress](), list[Event]()
    surelabel.label(
        place.photos,
        place.labels,
        tmp_path / "run",
        config=tiny(tmp_path / "cache", max_rounds=1, steps=4),
        listeners=Listeners(progress.append, events.append),
    )
    assert "reading images" in {p.what for p in progress}
    steps = [e.progress for e in events if isinstance(e, RoundProgress)]
    assert {"training", "scoring"} <= {p.what for p in steps}
    assert all(0 <= p.done <= p.total for p in [*progress, *steps])
    assert events[-1] == RunFinished(StopReason.ROUND_LIMIT, 1)


@pytest.mark.parametrize(
    ("label", "split", "is_reported"),
    [("down", "train", True), ("none of these", "train", True), ("down", "certify", False)],
)
def test_one_image_with_two_labels_is_reported_unless_one_is_hidden(
    place: Place, tmp_path: Path, label: str, split: str, is_reported: bool
) -> None:
    photos = shutil.copytree(place.photos, tmp_path / "photos")
    table = pd.read_csv(place.labels)
    first = table[table["label"] == "across"]["path"].iloc[0]
    shutil.copy(photos / first, photos / "copy.png")
    table.loc[len(table)] = {"path": "copy.png", "label": label}
    table["split"] = ["train"] * (len(table) - 1) + [split]
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "cache")
    pairs = contradictions(catalog)
    if is_reported:
        message = contradiction_sentence(catalog, pairs)
        assert f"copy.png ('{label}')" in message
        assert f"{first} ('across')" in message
    else:
        assert pairs == []
    assert contradictions(place.run.folder.catalog) == []


def test_a_target_without_certify_labels_is_told_before_training(
    place: Place, tmp_path: Path
) -> None:
    heard: list[Event] = []
    out = tmp_path / "sure"
    config = tiny(place.cache, max_rounds=1, steps=2, max_error="0.02")
    listeners = Listeners(on_event=heard.append)
    surelabel.label(place.photos, place.labels, out, config=config, listeners=listeners)
    told = [i for i, e in enumerate(heard) if isinstance(e, Advice) and "max-error" in e.text]
    started = [i for i, event in enumerate(heard) if isinstance(event, RoundStarted)]
    assert len(told) == 1
    assert told[0] < started[0]
    advice = heard[told[0]]
    assert isinstance(advice, Advice)
    assert "30 images" in advice.text, "with so few images, the advice is to label all of them"


def test_labels_for_checked_images_say_that_the_audit_no_longer_counts(
    run: Run, tmp_path: Path
) -> None:
    checks = run.write_checks(3, tmp_path / "checks.csv")
    table = pd.read_csv(checks.path, keep_default_na=False)
    table.assign(answer="right").to_csv(checks.path, index=False)
    assert run.audit(checks.path).all.n_checked == 3
    checked = table["path"].tolist()
    more = write_labels(tmp_path / "more.csv", checked)
    assert run.add(labels=more).voids_audit
    assert run.summary.audit_is_void


def test_a_round_that_changes_checked_labels_says_that_the_audit_no_longer_counts(
    run: Run, tmp_path: Path
) -> None:
    checks = run.write_checks(3, tmp_path / "checks.csv")
    table = pd.read_csv(checks.path, keep_default_na=False)
    table.assign(answer="right").to_csv(checks.path, index=False)
    assert run.audit(checks.path).all.n_checked == 3
    first = run.annotations.query("source == 'pseudo'").iloc[0]
    run.folder.answers.add(first["id"], AnswerKind.LABEL, first["label"])
    heard: list[Event] = []
    run.resume(Listeners(on_event=heard.append))
    assert run.summary.audit_is_void
    assert any(isinstance(event, Advice) and "audit" in event.text for event in heard)


def test_none_of_these_stays_what_it_is_in_tables_and_folders(run: Run, tmp_path: Path) -> None:
    odd = run.annotations.query("source == 'pseudo'").iloc[0]
    run.folder.answers.add(odd["id"], AnswerKind.NONE)
    table = run.annotations.set_index("id")
    assert table.loc[odd["id"], "label"] == "none of these"
    assert table.loc[odd["id"], "source"] == "reviewed"
    run.export("csv", tmp_path / "all.csv")
    written = pd.read_csv(tmp_path / "all.csv", keep_default_na=False).set_index("id")
    assert written.loc[odd["id"], "label"] == "none of these"
    run.export("folder", tmp_path / "all")
    assert (tmp_path / "all" / "none of these" / odd["path"]).is_file()


def test_classes_that_differ_in_spelling_are_told_and_can_be_joined(
    place: Place, tmp_path: Path
) -> None:
    text = place.labels.read_text().replace("down-00.png,down", "down-00.png,Down")
    labels = tmp_path / "labels.csv"
    labels.write_text(text, encoding="utf-8")
    heard: list[Event] = []
    config = tiny(place.cache, max_rounds=1, steps=2)
    listeners = Listeners(on_event=heard.append)
    two = surelabel.label(place.photos, labels, tmp_path / "2", config=config, listeners=listeners)
    assert set(two.summary.classes) == {"across", "down", "Down"}
    assert any(isinstance(e, Advice) and "--merge-spellings" in e.text for e in heard)
    one = surelabel.label(place.photos, labels, tmp_path / "1", config=config, merge_spellings=True)
    assert set(one.summary.classes) == {"across", "down"}


def test_fewer_labels_after_adding_some_are_explained(run: Run) -> None:
    assert run.summary.change is None
    accepted = run.annotations.query("source == 'pseudo'")
    for row in accepted.head(4).itertuples():
        run.folder.answers.add(str(row.id), AnswerKind.LABEL, str(row.label))
    run.resume()
    change = run.summary.change
    assert change is not None
    assert change.n_before == len(accepted)
    assert change.n_taken == 4
    lost = change.n_taken + change.n_withdrawn - change.n_new
    assert change.n_now == change.n_before - lost
    fewer = dataclasses.replace(run.summary, change=dataclasses.replace(change, n_now=3))
    assert f"3 labels, the one before your new labels {len(accepted)}" in fewer_sentence(fewer)
    more = dataclasses.replace(change, n_now=change.n_before)
    assert fewer_sentence(dataclasses.replace(run.summary, change=more)) == ""


def test_predicting_images_that_the_run_learned_from_counts_them(run: Run, place: Place) -> None:
    table = run.predict(place.photos)
    assert len(table) == run.summary.n_images
    assert table.attrs["seen"] == run.summary.n_human
    told = predict_sentence(30, 40, [], Path("new.csv"), n_seen=table.attrs["seen"])
    assert f"{run.summary.n_human} of the images" in told
