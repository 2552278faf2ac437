from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapt_data import KS, NAMES, few_labels, new_images, old_run, split_of
from workflow_data import tiny, truth, write_labels

import surelabel
from surelabel.adaptation.label_partition import hide_from_report, one_per_unit
from surelabel.adaptation.learner import CENTROIDS
from surelabel.api import Run
from surelabel.cli.main import run as command_line
from surelabel.engines.storage import read_tensors
from surelabel.errors import (
    InputError,
    LabelsError,
    OptionError,
    RunError,
    SurelabelError,
    TooFewLabelsError,
)
from surelabel.export.columns import COLUMNS
from surelabel.messages.adaptation import adaptation_sentences
from surelabel.types import LabelSource


class Place:
    """A finished run, a new dataset that looks different, and the adapted run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run2 = old_run(path)
        self.images = new_images(path / "new")
        self.table = few_labels(path / "few.csv", split_of)
        self.adapted = self.adapt(self.table, path / "adapted")

    def adapt(self, table: Path, out: Path, **more: Any) -> Run:
        return self.run2.adapt(self.images, table, out, ks=KS, **more)

    @property
    def net1(self) -> Path:
        return self.path / "adapted-net1"


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
    labeled = table[table["source"] == LabelSource.PSEUDO]
    assert len(labeled) > 10
    assert (labeled["label"] == labeled["path"].map(truth)).mean() > 0.9
    assert (labeled["score"] <= labeled["threshold"]).all()
    assert place.adapted.summary.is_finished
    assert place.adapted.export("csv", tmp_path / "all.csv") == len(table)


def test_the_comparisons_are_reported(place: Place) -> None:
    reported = facts(place.adapted)
    assert reported["is_trusted"]
    assert reported["n_labels"] == {"fit": 22, "decide": 22, "report": 56}
    assert reported["k"] in {int(k) for k in reported["right_by_k"]}
    text = " ".join(adaptation_sentences(place.adapted.summary))
    n = reported["against_direct"]["n"]
    assert f"{n:,} held-out labels" in text
    for other in ("against_direct", "against_few_labels"):
        assert f"{reported[other]['n_other_right']:,}" in text
    assert "better than both" in text
    assert adaptation_sentences(place.run2.summary) == []


def test_no_decision_uses_the_report_labels(place: Place, tmp_path: Path) -> None:
    """With all of them swapped, everything that was decided is the same."""
    wrong = few_labels(tmp_path / "wrong.csv", split_of, wrong_on="tune")
    other = place.adapt(wrong, tmp_path / "other")
    for name, values in centroids(place.adapted).items():
        assert np.array_equal(centroids(other)[name], values)
    same = ("k", "right_by_k", "right_by_removal", "n_excluded", "gap")
    assert [facts(other)[name] for name in same] == [facts(place.adapted)[name] for name in same]
    one, two = (run.annotations.set_index("path")["guess"] for run in (place.adapted, other))
    assert one.equals(two)


def test_labels_are_refused_where_it_is_not_shown_to_help(place: Place, tmp_path: Path) -> None:
    wrong = few_labels(tmp_path / "wrong.csv", split_of, wrong_on="tune")
    other = place.adapt(wrong, tmp_path / "other", run1=place.net1)
    assert not facts(other)["is_trusted"]
    table = other.annotations
    assert not (table["source"] == LabelSource.PSEUDO).any()
    left = table[table["source"] == LabelSource.NONE]
    assert left["guess"].isin(NAMES).all()
    assert other.summary.n_left == len(left)
    assert any("surelabel label" in each for each in adaptation_sentences(other.summary))


def test_labels_that_net_1_was_trained_on_do_not_report(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "knows")
    knows = surelabel.open_run(tmp_path / "knows").resume(max_rounds=2)
    with pytest.raises(TooFewLabelsError, match="0 are left"):
        place.run2.adapt(place.images, place.table, tmp_path / "out", run1=knows.path)
    table = few_labels(tmp_path / "certify.csv", lambda n: "train" if n < 122 else "certify")
    with pytest.raises(LabelsError, match="of the certify images"):
        place.run2.adapt(place.images, table, tmp_path / "out", run1=knows.path)
    assert not (tmp_path / "out").exists()


def test_labels_that_net_2_was_trained_on_do_not_report(place: Place, tmp_path: Path) -> None:
    images = shutil.copytree(place.images, tmp_path / "new")
    known = [f"{name}-{number:02}.png" for name in NAMES for number in range(20)]
    for file in known:
        shutil.copy(place.path / "old" / file, images / file)
    lines = place.table.read_text().splitlines()
    for split, error in (("tune", TooFewLabelsError), ("certify", LabelsError)):
        moved = [line for line in lines[1:] if split != "tune" or not line.endswith("tune")]
        moved += [f"{file},{file.split('-')[0]},{split}" for file in known]
        table = write_labels(tmp_path / f"{split}.csv", moved, lines[0])
        with pytest.raises(error, match=str(place.run2.path)):
            place.run2.adapt(images, table, tmp_path / "out")


def test_images_of_a_group_with_a_trained_label_do_not_report(place: Place) -> None:
    catalog = place.adapted.folder.catalog
    net1 = surelabel.open_run(place.net1).folder
    learned = net1.catalog.splits == "train"
    report = np.flatnonzero(catalog.splits == "tune")[:3]
    groups = catalog.groups.astype(object)
    groups[[np.flatnonzero(learned)[0], *report]] = "lot 7"
    tied = replace(catalog, groups=groups.astype(np.str_))
    hidden = hide_from_report(tied, [net1])
    assert (hidden.splits[report] == "train").all()
    assert (hidden.splits == "tune").sum() == (catalog.splits == "tune").sum() - 3
    assert len(one_per_unit(tied, tied.ids)) == len(tied) - 3


def test_settings_are_checked_before_anything_is_trained(place: Place, tmp_path: Path) -> None:
    for options in ({"accept": "foo"}, {"max_error": "abc"}, {"max_error": "zigzag=0.1"}):
        with pytest.raises(SurelabelError):
            place.adapt(place.table, tmp_path / "out", **options)
    with pytest.raises(OptionError, match="k is 0"):
        place.run2.adapt(place.images, place.table, tmp_path / "out", ks=(0,))
    assert not list(tmp_path.iterdir())


def test_it_has_no_nets_until_it_is_resumed(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "run")
    run = surelabel.open_run(tmp_path / "run")
    with pytest.raises(RunError, match="has no nets of its own"):
        run.predict(place.images)
    with pytest.raises(RunError, match="has no trained nets"):
        run.adapt(place.images, place.table, tmp_path / "out")
    run.resume(max_rounds=2)
    assert run.rounds[1].n_pseudo == run.rounds[0].n_accepted
    assert len(run.predict(place.images)) == 140


def test_a_trained_net_1_is_used_again_and_another_one_refused(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.net1, tmp_path / "again-net1")
    again = place.adapt(place.table, tmp_path / "again")
    assert np.array_equal(centroids(again)["centroids"], centroids(place.adapted)["centroids"])
    assert (
        surelabel.open_run(tmp_path / "again-net1").rounds == surelabel.open_run(place.net1).rounds
    )
    shutil.copytree(place.net1, tmp_path / "more-net1")
    with pytest.raises(RunError, match="other images, labels or settings"):
        place.run2.adapt(place.images, place.table, tmp_path / "more", seed=77)


def test_bad_labels_get_a_sentence(place: Place, tmp_path: Path) -> None:
    few = write_labels(
        tmp_path / "few.csv", [f"{n}-{i}.png" for n in NAMES for i in range(100, 104)]
    )
    with pytest.raises(TooFewLabelsError, match="8 labels are too few"):
        place.run2.adapt(place.images, few, tmp_path / "out")
    lines = place.table.read_text().splitlines()
    odd = [line.replace(",across,", ",zigzag,") for line in lines[1:11]]
    table = write_labels(tmp_path / "odd.csv", [*odd, *lines[11:]], lines[0])
    with pytest.raises(LabelsError, match="'zigzag'"):
        place.run2.adapt(place.images, table, tmp_path / "out")


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.run2.path, tmp_path / "run2")
    run = surelabel.open_run(tmp_path / "run2")
    run.folder.replace_config(run.config.replace(max_rounds=2))
    assert not run.summary.is_finished
    with pytest.raises(RunError, match="surelabel resume"):
        run.adapt(place.images, place.table, tmp_path / "out")
    with pytest.raises(RunError, match="is not finished"):
        place.run2.adapt(place.images, place.table, tmp_path / "out", run1=run.path)


def test_a_net_1_that_reads_images_in_another_size_is_refused(place: Place, tmp_path: Path) -> None:
    small = tiny(tmp_path / "cache", image_size=12, steps=2, max_rounds=1)
    table = few_labels(tmp_path / "even.csv", lambda _: "train", upto=110)
    run1 = surelabel.label(place.images, table, tmp_path / "run1", config=small)
    with pytest.raises(RunError, match="12x12"):
        place.run2.adapt(place.images, place.table, tmp_path / "out", run1=run1.path)


def test_certify_labels_bound_what_was_accepted_and_never_overrule_a_refusal(
    place: Place, tmp_path: Path
) -> None:
    for name, wrong_on in (("right", ""), ("refused", "tune")):
        table = few_labels(tmp_path / f"{name}.csv", split_of, wrong_on=wrong_on, upto=160)
        made = place.adapt(table, tmp_path / name, run1=place.net1, max_error="0.5")
        record = made.summary.certification
        if wrong_on:
            assert record is None
            surelabel.resume(made.path)
            assert not (made.annotations["source"] == LabelSource.PSEUDO).any()
        else:
            assert record is not None
            assert record.holds
            assert made.summary.n_labeled


def test_what_a_killed_call_left_is_replaced(place: Place, tmp_path: Path) -> None:
    left = tmp_path / "out.partial"
    left.mkdir()
    (left / "notes.txt").write_text("my own")
    with pytest.raises(InputError, match="in the way"):
        place.adapt(place.table, tmp_path / "out", run1=place.net1)
    assert (left / "notes.txt").read_text() == "my own"
    shutil.rmtree(left)
    shutil.copytree(place.adapted.path, left)
    made = place.adapt(place.table, tmp_path / "out", run1=place.net1)
    assert not left.exists()
    assert facts(made)["k"] == facts(place.adapted)["k"]


def test_what_other_commands_make_of_it(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "run")
    run = surelabel.open_run(tmp_path / "run")
    page = run.report().read_text(encoding="utf-8")
    assert "better than both" in page
    assert run.export("folder", tmp_path / "classes") == run.summary.n_images
    checks = run.write_checks(10, tmp_path / "checks.csv")
    lines = checks.path.read_text(encoding="utf-8").splitlines()
    answered = [f"{line.rstrip(',')},right" for line in lines[1:]]
    checks.path.write_text("\n".join([lines[0], *answered]) + "\n", encoding="utf-8")
    assert run.audit(checks.path).all.n_wrong == 0


def test_the_command_says_yes_or_no_by_its_exit_code(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def adapt(table: Path, out: str) -> int:
        where = [
            "--out",
            str(tmp_path / out),
            "--run1",
            str(place.net1),
            "--no-report",
            "--k",
            str(KS[0]),
        ]
        start = ["adapt", str(place.run2.path), str(place.images), "--labels", str(table)]
        return command_line([*start, *where, "--no-report"])

    assert adapt(place.table, "yes") == 0
    assert "better than both" in " ".join(capsys.readouterr().err.split())
    wrong = few_labels(tmp_path / "wrong.csv", split_of, wrong_on="tune")
    assert adapt(wrong, "no") == 4
    assert "surelabel label" in " ".join(capsys.readouterr().err.split())


def test_remarks_that_the_decision_does_not_depend_on_are_reported_too(place: Place) -> None:
    summary = place.adapted.summary
    changed = dict(facts(place.adapted), classes_unused=["plain"])
    changed["against_net1"] = dict(changed["against_net1"], n_right=10, n_other_right=30)
    last = replace(summary.rounds[-1], learner={"adaptation": changed})
    reported = adaptation_sentences(replace(summary, rounds=(last,)))
    assert any("(30)" in each and "surelabel label" in each for each in reported)
    assert "'plain'" in reported[-1]
