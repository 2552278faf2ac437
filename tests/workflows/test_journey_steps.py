"""Where a run stands on the way from images to a dataset, from its folder alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from workflow_data import photos_and_labels, tiny, truth

from surelabel.errors import InputError
from surelabel.guarantees.critical_counts import critical_count
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.first_labels import (
    FIRST_DRAW,
    adopt_first_labels,
    begin_unlabeled,
    draw_first_images,
    draw_order,
    n_by_coverage,
)
from surelabel.workflows.journey import (
    Journey,
    Step,
    checks_for,
    plan_by_hand,
    plan_classes,
    plan_folders,
    plan_wish,
)
from surelabel.workflows.label import train


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> RunFolder:
    """40 images without labels."""
    photos, _ = photos_and_labels(tmp_path)
    config = tiny(tmp_path / "cache", steps=8, max_rounds=1)
    return begin_unlabeled(photos, tmp_path / "run", config)


def label(folder: RunFolder, n: int, skip: int = 0) -> list[str]:
    catalog = folder.catalog
    paths = dict(zip(catalog.ids.tolist(), catalog.paths.tolist(), strict=True))
    ids: list[str] = draw_order(RunFolder.open(folder.path)).tolist()[skip : skip + n]
    for item_id in ids:
        name = truth(paths[item_id])
        folder.answers.add(item_id, AnswerKind.LABEL, name, purpose=Purpose.FIRST)
    return ids


def test_every_step_follows_from_what_was_done(folder: RunFolder) -> None:
    assert Journey(folder).current() is Step.LOOK
    plan_classes(folder, ["across"])
    assert Journey(folder).current() is Step.CLASSES
    plan_classes(folder, ["across", "down"])
    assert Journey(folder).current() is Step.LABELS
    assert not Journey(folder).can_train
    label(folder, 12)
    assert Journey(folder).can_train
    assert Journey(folder).current() is Step.LABELS, "more are wanted for this collection"
    label(folder, 28, skip=12)
    assert Journey(folder).current() is Step.DONE, "every image has a label by hand"


def test_after_a_round_comes_the_wish_and_without_one_what_is_left(folder: RunFolder) -> None:
    plan_classes(folder, ["down", "across"])
    label(folder, 12)
    train(folder)
    journey = Journey(folder)
    assert journey.current() is Step.WISH
    assert journey.class_names == ["down", "across"], "classes keep their keys"
    plan_wish(folder, 0.2)
    assert Journey(folder).current() is Step.WISH
    assert RunFolder.open(folder.path).config.max_error == "0.2"
    plan_wish(folder, None)
    assert Journey(folder).current() is Step.FINISH
    assert all(step.is_open for step in Journey(folder).steps()), "every step can be seen again"


def test_answers_since_the_last_training_lead_back_to_it(folder: RunFolder) -> None:
    plan_classes(folder, ["across", "down"])
    label(folder, 12)
    train(folder)
    label(folder, 3, skip=12)
    journey = Journey(folder)
    assert journey.n_new == 3
    assert journey.current() is Step.TRAIN


def test_images_drawn_by_coverage_come_first_and_the_others_stay_random(folder: RunFolder) -> None:
    early = label(folder, 6)  # random: before the draw by coverage was made
    draw_first_images(folder)
    folder = RunFolder.open(folder.path)
    drawn = folder.about[FIRST_DRAW]["ids"]
    assert len(drawn) == n_by_coverage(40) == 10
    order = draw_order(folder).tolist()
    assert order[:10] == drawn
    assert [i for i in order[10:] if i in early] == [i for i in early if i not in drawn]
    for item_id in drawn:
        if item_id not in early:
            folder.answers.add(item_id, AnswerKind.LABEL, "across", purpose=Purpose.FIRST)
    label(folder, 8, skip=16)
    with folder.lock():
        adopt_first_labels(folder)
    catalog = RunFolder.open(folder.path).catalog
    random = set(catalog.ids[catalog.sources == "given"].tolist()) - set(drawn)
    assert set(catalog.undivided) == random, "thresholds are set by random labels only"


def test_folders_become_classes_only_when_a_person_says_so_and_that_can_be_undone(
    tmp_path: Path,
) -> None:
    photos, _ = photos_and_labels(tmp_path)
    (photos / "across").mkdir()
    for name in ("across-00.png", "across-01.png", "across-02.png"):
        shutil.move(photos / name, photos / "across" / name)
    folder = begin_unlabeled(photos, tmp_path / "run", tiny(tmp_path / "cache"))
    assert Journey(folder).look()["folders"] == [{"name": "across", "n": 3}]
    assert Journey(folder).class_names == []
    plan_folders(folder, are_classes=True)
    assert Journey(folder).counts["across"] == 3
    plan_folders(folder, are_classes=False)
    assert Journey(folder).counts["across"] == 0
    assert Journey(folder).class_names == []
    plan_folders(folder, are_classes=True)
    label(folder, 12)
    with folder.lock():
        adopt_first_labels(folder)
    catalog = RunFolder.open(folder.path).catalog
    in_folder = catalog.ids[np.char.startswith(catalog.paths, "across/")]
    assert not set(in_folder.tolist()) & set(catalog.undivided), "no random sample"


@pytest.mark.parametrize("names", [["cat", ""], ["cat", "Cat"], ["none of these"], ["x" * 201]])
def test_names_of_classes_that_cannot_be_used_are_refused(
    folder: RunFolder, names: list[str]
) -> None:
    with pytest.raises(InputError):
        plan_classes(folder, names)
    assert Journey(folder).class_names == []


def test_the_number_of_checks_is_the_fewest_that_allow_one_mistake() -> None:
    n = checks_for(400, 500, 0.02, 0.05)
    assert critical_count(400, n, 10, 0.05) >= 1
    assert critical_count(400, n - 1, 10, 0.05) < 1


def test_for_few_images_labeling_all_by_hand_is_advised(folder: RunFolder) -> None:
    assert Journey(folder).effort()["by_hand_is_better"]
    plan_by_hand(folder, by_hand=True)
    assert Journey(folder).n_wanted == 40
