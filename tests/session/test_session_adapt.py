from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapt_data import NAMES, new_images, old_run
from session_data import truth, write_labels

import surelabel
from surelabel import Run
from surelabel.adapt_words import adaptation_sentences
from surelabel.annotations import COLUMNS
from surelabel.engines.adapted import CENTROIDS
from surelabel.engines.weights import read_tensors
from surelabel.errors import LabelsError, RunError, TooFewLabelsError
from surelabel.types import LabelSource


class Place:
    """A finished run, a dataset that it does not fit, and what adaptation made of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run2 = old_run(path)
        self.images, self.labels = new_images(path, 70, 50, mixed=True)
        self.table = write_split(path / "split.csv", self.labels)
        self.adapted = self.run2.adapt(self.images, self.table, path / "adapted")

    @property
    def facet(self) -> Path:
        return self.path / "adapted-facet1"


def write_split(path: Path, labels: Path, *, swap_report: bool = False) -> Path:
    """The labels with every third held out to report on, maybe with wrong labels there."""
    other = dict(zip(NAMES, NAMES[::-1], strict=True))
    lines = []
    for number, file in enumerate(line.split(",")[0] for line in labels.read_text().split()[1:]):
        report = number % 3 == 0
        label = other[truth(file)] if report and swap_report else truth(file)
        lines.append(f"{file},{label},{'tune' if report else 'train'}")
    return write_labels(path, lines, "path,label,split")


@pytest.fixture(name="place", scope="module")
def fixture_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


def facts(run: Run) -> dict[str, Any]:
    return dict(run.rounds[0].learner["adaptation"])


def centroids(run: Run) -> dict[str, np.ndarray]:
    tensors, _ = read_tensors(run.path / "rounds" / "001" / CENTROIDS)
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def test_an_adapted_run_is_a_run_like_any_other(place: Place, tmp_path: Path) -> None:
    table = place.adapted.annotations
    assert tuple(table.columns) == COLUMNS
    given = table[table["source"] == LabelSource.GIVEN]
    assert (given["label"] == given["path"].map(truth)).all()
    labelled = table[table["source"] == LabelSource.PSEUDO]
    assert len(labelled) > 10
    assert (labelled["label"] == labelled["path"].map(truth)).mean() > 0.9
    assert (labelled["score"] <= labelled["threshold"]).all()
    assert place.adapted.summary.is_finished
    assert place.adapted.export("csv", tmp_path / "all.csv") == len(table)


def test_it_says_what_it_was_compared_with(place: Place) -> None:
    said = facts(place.adapted)
    assert said["is_trusted"]
    assert said["n_labels"] == {"fit": 33, "decide": 33, "report": 34}
    assert said["k"] in {int(k) for k in said["right_by_k"]}
    sentences = adaptation_sentences(place.adapted.summary)
    assert any("the nets as they are" in each for each in sentences)
    assert sentences[-1] == "It is better than both, beyond chance."
    assert adaptation_sentences(place.run2.summary) == []


def test_the_decision_never_sees_the_reported_labels(place: Place, tmp_path: Path) -> None:
    """With all of them turned round, everything that was decided is the same."""
    wrong = write_split(tmp_path / "wrong.csv", place.labels, swap_report=True)
    other = place.run2.adapt(place.images, wrong, tmp_path / "other")
    for name, values in centroids(place.adapted).items():
        assert np.array_equal(centroids(other)[name], values)
    same = ("k", "right_by_k", "right_by_removal", "n_excluded", "gap")
    assert [facts(other)[name] for name in same] == [facts(place.adapted)[name] for name in same]
    one, two = (run.annotations.set_index("path")["guess"] for run in (place.adapted, other))
    assert one.equals(two)


def test_labels_are_refused_where_it_is_not_shown_to_help(place: Place, tmp_path: Path) -> None:
    wrong = write_split(tmp_path / "wrong.csv", place.labels, swap_report=True)
    other = place.run2.adapt(place.images, wrong, tmp_path / "other", run1=place.facet)
    assert not facts(other)["is_trusted"]
    table = other.annotations
    assert not (table["source"] == LabelSource.PSEUDO).any()
    left = table[table["source"] == LabelSource.NONE]
    assert left["guess"].isin(NAMES).all()
    assert other.summary.n_left == len(left)
    assert "not accepted" in adaptation_sentences(other.summary)[-1]


def test_labels_that_the_second_facet_knows_are_not_reported_on(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "knows")
    knows = surelabel.open_run(tmp_path / "knows").resume(max_rounds=2)
    with pytest.raises(TooFewLabelsError, match="leave out --run1"):
        place.run2.adapt(place.images, place.table, tmp_path / "out", run1=knows.path)
    assert not (tmp_path / "out").exists()


def test_it_has_no_nets_until_it_is_resumed(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "run")
    run = surelabel.open_run(tmp_path / "run")
    with pytest.raises(RunError, match="has no nets of its own"):
        run.predict(place.images)
    with pytest.raises(RunError, match="has no trained nets"):
        run.adapt(place.images, place.table, tmp_path / "out")
    run.resume(max_rounds=2)
    assert run.rounds[1].n_machine == run.rounds[0].n_accepted
    assert len(run.predict(place.images)) == 140


def test_a_facet_that_is_there_is_used_again_and_another_one_refused(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.facet, tmp_path / "again-facet1")
    again = place.run2.adapt(place.images, place.table, tmp_path / "again")
    assert np.array_equal(centroids(again)["centroids"], centroids(place.adapted)["centroids"])
    assert (
        surelabel.open_run(tmp_path / "again-facet1").rounds
        == surelabel.open_run(place.facet).rounds
    )
    shutil.copytree(place.facet, tmp_path / "more-facet1")
    with pytest.raises(RunError, match="second facet of other"):
        place.run2.adapt(place.images, place.table, tmp_path / "more", seed=77)


def test_bad_labels_get_a_sentence(place: Place, tmp_path: Path) -> None:
    names = [line.split(",")[0] for line in place.labels.read_text().split()[1:]]
    few = write_labels(tmp_path / "few.csv", names[:4] + names[-4:])
    with pytest.raises(TooFewLabelsError, match="8 labels are too few to adapt with"):
        place.run2.adapt(place.images, few, tmp_path / "out")
    odd = [f"{name},{truth(name)}" for name in names]
    odd[:10] = [f"{name},zigzag" for name in names[:10]]
    with pytest.raises(LabelsError, match="class 'zigzag'"):
        place.run2.adapt(place.images, write_labels(tmp_path / "o.csv", odd), tmp_path / "out")
