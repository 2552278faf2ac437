from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from workflow_data import photos_and_labels, tiny, truth, write_labels

import surelabel
from surelabel.dataset.sampling import write_draw
from surelabel.errors import LabelsError, RunError
from surelabel.messages.run import error_sentence
from surelabel.runs.folder import RunFolder
from surelabel.types import Split
from surelabel.workflows.drawing import draw_by_coverage, draw_uncertain
from surelabel.workflows.first_labels import begin_unlabeled
from surelabel.workflows.problem import problem_of


@pytest.fixture(name="drawn")
def fixture_drawn(tmp_path: Path) -> pd.DataFrame:
    photos, _ = photos_and_labels(tmp_path)
    table = draw_by_coverage(photos, 16, tiny(tmp_path / "cache"))
    return table.assign(label=[truth(path) for path in table["path"]])


def test_images_drawn_by_coverage_say_so_and_the_first_are_of_both_classes(
    drawn: pd.DataFrame, tmp_path: Path
) -> None:
    assert len(drawn) == drawn["path"].nunique() == 16
    assert set(drawn["drawn"]) == {"coverage"}
    assert set(drawn["label"][:4]) == {"across", "down"}
    write_draw(drawn, tmp_path / "drawn.csv")
    assert '"strategy": "coverage"' in (tmp_path / "drawn.csv.draw.json").read_text()


def test_images_that_are_listed_are_not_drawn_again(drawn: pd.DataFrame, tmp_path: Path) -> None:
    others = draw_by_coverage(tmp_path / "photos", 50, tiny(tmp_path / "cache"), drawn)
    assert not set(others["path"]) & set(drawn["path"])
    assert len(others) == 40 - 16


@pytest.mark.parametrize("split", ["certify", "tune"])
def test_labels_drawn_by_coverage_can_neither_certify_nor_be_held_out(
    drawn: pd.DataFrame, tmp_path: Path, split: str
) -> None:
    """This fails if chosen labels may certify: the guarantee rests on a random sample."""
    splits = [split, *[""] * 15]
    with pytest.raises(LabelsError, match=r"coverage.*--certify"):
        surelabel.label(tmp_path / "photos", drawn.assign(split=splits), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_vouching_for_random_labels_does_not_make_chosen_ones_certify(
    drawn: pd.DataFrame, tmp_path: Path
) -> None:
    others = [f"{name}-{i:02d}" for name in ("across", "down") for i in range(20)]
    known = {Path(path).stem for path in drawn["path"]}
    suffix = Path(str(drawn["path"][0])).suffix
    random = [f"{stem}{suffix}" for stem in others if stem not in known][:12]
    table = pd.concat(
        [drawn, pd.DataFrame({"path": random, "label": [truth(p) for p in random], "drawn": ""})]
    )
    config = tiny(tmp_path / "cache", labels_are_random=True, certify_share=0.5, max_rounds=1)
    folder = surelabel.label(tmp_path / "photos", table, tmp_path / "run", config=config).folder
    catalog = folder.catalog
    paths = catalog.paths[np.isin(catalog.ids, catalog.in_split(Split.CERTIFY))].tolist()
    assert len(paths) == 6
    assert not set(paths) & set(drawn["path"])
    held_out = catalog.paths[catalog.rows(problem_of(folder).tune_ids)].tolist()
    assert held_out
    assert not set(held_out) & set(drawn["path"]), "random labels alone set thresholds"


def test_an_estimate_from_chosen_labels_alone_says_so(drawn: pd.DataFrame, tmp_path: Path) -> None:
    config = tiny(tmp_path / "cache", max_rounds=1)
    chosen = surelabel.label(tmp_path / "photos", drawn, tmp_path / "run", config=config)
    random = drawn.drop(columns="drawn")
    other = surelabel.label(tmp_path / "photos", random, tmp_path / "other", config=config)
    assert not chosen.summary.held_out_is_random
    assert other.summary.held_out_is_random
    assert "at random" in error_sentence(chosen.summary)
    assert "at random" not in error_sentence(other.summary)


def test_what_a_run_is_uncertain_of_is_drawn_from_what_is_left(tmp_path: Path) -> None:
    photos, labels = photos_and_labels(tmp_path)
    names = sorted(path.name for path in photos.iterdir())
    lines = [f"{name},{truth(name)},certify" for name in names[-3:]]
    lines += [f"{line}," for line in labels.read_text().splitlines()[1:]]
    write_labels(labels, lines, "path,label,split")
    config = tiny(tmp_path / "cache", max_rounds=1)
    run = surelabel.label(photos, labels, tmp_path / "run", config=config)
    table = draw_uncertain(run.folder, 8)
    assert set(table["drawn"]) == {"uncertain"}
    assert len(table) == 8
    assert not set(table["path"]) & {line.split(",")[0] for line in lines}
    table["label"] = [truth(path) for path in table["path"]]
    run.add(labels=table)
    held_out = run.folder.catalog.paths[run.folder.catalog.rows(problem_of(run.folder).tune_ids)]
    assert not set(held_out.tolist()) & set(table["path"])


def test_without_a_round_nothing_is_uncertain(tmp_path: Path) -> None:
    photos, _ = photos_and_labels(tmp_path)
    folder = begin_unlabeled(photos, tmp_path / "run", tiny(tmp_path / "cache"))
    with pytest.raises(RunError, match="coverage"):
        draw_uncertain(folder, 5)


def test_first_labels_of_images_drawn_by_coverage_are_no_random_sample(tmp_path: Path) -> None:
    from surelabel.runs.answers import AnswerKind, Purpose
    from surelabel.workflows.first_labels import adopt_first_labels, draw_order

    photos, _ = photos_and_labels(tmp_path)
    config = tiny(tmp_path / "cache")
    folder = begin_unlabeled(photos, tmp_path / "run", config, n_by_coverage=12)
    order = draw_order(folder).tolist()
    assert sorted(order) == sorted(folder.catalog.ids.tolist())
    order = order[:12]
    table = draw_by_coverage(photos, 12, config)
    paths = dict(zip(folder.catalog.ids.tolist(), folder.catalog.paths.tolist(), strict=True))
    assert [paths[item_id] for item_id in order] == table["path"].tolist()
    for item_id in order:
        label = truth(paths[item_id])
        folder.answers.add(item_id, AnswerKind.LABEL, label, purpose=Purpose.FIRST)
    with folder.lock():
        adopt_first_labels(folder)
    assert RunFolder.open(folder.path).catalog.undivided == ()
