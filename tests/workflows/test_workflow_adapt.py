from __future__ import annotations

import html
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adapt_data import KS, NAMES, few_labels, new_images, old_run, split_of
from workflow_data import tiny, truth, write_labels, write_stripes

import surelabel
from surelabel.adaptation.label_partition import hide_from_report, one_per_unit
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
from surelabel.runs.rounds import CENTROIDS
from surelabel.types import LabelSource
from surelabel.workflows.certify import is_refused_adaptation
from surelabel.workflows.certify_plan import certify_table


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
    def alone(self) -> Path:
        return self.path / "adapted-alone"


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


def test_the_choice_and_its_evidence_are_reported(place: Place) -> None:
    reported = facts(place.adapted)
    assert reported["n_labels"] == {"learn": 44, "report": 56}
    by_name = {way["name"]: way for way in reported["ways"]}
    assert {"direct inference", "new labels alone", "adaptive clustering"} < set(by_name)
    assert min(by_name, key=lambda name: by_name[name]["loss"]) == reported["chosen"]
    assert reported["clustering"]["k"] in {int(k) for k in reported["clustering"]["right_by_k"]}
    text = " ".join(adaptation_sentences(place.adapted.summary))
    assert f"{reported['against_direct']['n']:,} held-out labels" in text
    for name, way in by_name.items():
        assert way["n_right"] is None or f"{name} {way['n_right']}" in text
    assert "significantly better than direct inference" in text
    assert adaptation_sentences(place.run2.summary) == []


def test_the_curve_tells_what_fewer_labels_are_worth(place: Place) -> None:
    curve = facts(place.adapted)["curve"]
    assert sorted({point["n_labels"] for point in curve}) == [0, 2, 10, 44]
    assert {p["way"] for p in curve if p["n_labels"] == 0} < {p["way"] for p in curve}
    last = {p["way"]: p["accuracy"] for p in curve if p["n_labels"] == 44}
    reported = facts(place.adapted)
    n = reported["against_direct"]["n"]
    assert last["chosen by evidence"] == pytest.approx(reported["against_direct"]["n_right"] / n)
    for way in reported["ways"]:
        assert way["n_right"] is None or last[way["name"]] == pytest.approx(way["n_right"] / n)
    # The clusters of net 1, which learned from all labels, are not there with fewer of them.
    assert [p["n_labels"] for p in curve if p["way"] == "adaptive clustering"] == [44]
    assert [p["n_labels"] for p in curve if p["way"] == "new labels alone"] == [2, 10, 44]


def test_no_decision_uses_the_report_labels(place: Place, tmp_path: Path) -> None:
    """With all of them swapped, everything that was decided is the same."""
    shutil.copytree(place.alone, tmp_path / "other-alone")
    wrong = few_labels(tmp_path / "wrong.csv", split_of, wrong_on="tune")
    other = place.adapt(wrong, tmp_path / "other")
    for name, values in centroids(place.adapted).items():
        assert np.array_equal(centroids(other)[name], values)
    same = ("chosen", "alone", "clustering", "gap")
    assert [facts(other)[name] for name in same] == [facts(place.adapted)[name] for name in same]
    decided = [
        [(way["name"], way["loss"], way["weight"]) for way in facts(run)["ways"]]
        for run in (place.adapted, other)
    ]
    assert decided[0] == decided[1]
    one, two = (run.annotations.set_index("path")["guess"] for run in (place.adapted, other))
    assert one.equals(two)
    assert "not shown to be better" in " ".join(adaptation_sentences(other.summary))


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
    alone = surelabel.open_run(place.alone).folder
    learned = alone.catalog.splits == "train"
    report = np.flatnonzero(catalog.splits == "tune")[:3]
    groups = catalog.groups.astype(object)
    groups[[np.flatnonzero(learned)[0], *report]] = "lot 7"
    tied = replace(catalog, groups=groups.astype(np.str_))
    hidden = hide_from_report(tied, alone)
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


def test_the_run_on_the_new_labels_is_used_again_and_another_one_refused(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.alone, tmp_path / "again-alone")
    again = place.adapt(place.table, tmp_path / "again")
    assert np.array_equal(centroids(again)["centroids"], centroids(place.adapted)["centroids"])
    made = surelabel.open_run(tmp_path / "again-alone")
    assert made.rounds == surelabel.open_run(place.alone).rounds
    shutil.copytree(place.alone, tmp_path / "more-alone")
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
    with pytest.raises(LabelsError, match="'zigzag', which is not a class of"):
        place.run2.adapt(place.images, table, tmp_path / "out")
    others = [line.replace(",across,", ",zig,").replace(",down,", ",zag,") for line in lines[1:]]
    table = write_labels(tmp_path / "others.csv", others, lines[0])
    with pytest.raises(LabelsError, match="No label is of a class of"):
        place.run2.adapt(place.images, table, tmp_path / "out")
    held_out = [line for line in lines[1:] if ",across,train" not in line]
    table = write_labels(tmp_path / "held-out.csv", held_out, lines[0])
    with pytest.raises(SurelabelError, match="Every label of the class 'across' is in the tune"):
        place.run2.adapt(place.images, table, tmp_path / "out")
    assert not (tmp_path / "out-alone").exists()


def test_another_net_or_size_than_the_old_run_s_is_refused(place: Place, tmp_path: Path) -> None:
    known = place.run2.config
    for options in ({"net": "lite0"}, {"image_size": 64}, {"keep_aspect": not known.keep_aspect}):
        (name,) = options
        with pytest.raises(OptionError, match=f"{name} is .* made with {getattr(known, name)}"):
            place.adapt(place.table, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_an_old_class_without_labels_is_named_and_never_predicted(tmp_path: Path) -> None:
    kinds = (*NAMES, "plain")
    files = [write_stripes(tmp_path / "old", name, range(20)) for name in kinds]
    labels = write_labels(tmp_path / "old.csv", [file for each in files for file in each[:14]])
    config = tiny(tmp_path / "cache", steps=40, max_rounds=1)
    run2 = surelabel.label(tmp_path / "old", labels, tmp_path / "run2", config=config)
    images = new_images(tmp_path / "new")
    write_stripes(images, "plain", range(10))
    table = few_labels(tmp_path / "few.csv", split_of)
    adapted = run2.adapt(images, table, tmp_path / "adapted", ks=(6,))
    assert facts(adapted)["classes_unused"] == ["plain"]
    assert "'plain'" in adaptation_sentences(adapted.summary)[-1]
    assert "'plain'" in html.unescape(adapted.report().read_text(encoding="utf-8"))
    assert set(adapted.annotations["guess"].dropna()) <= {*NAMES, ""}


def test_an_unfinished_run_is_refused_with_the_way_to_finish_it(
    place: Place, tmp_path: Path
) -> None:
    shutil.copytree(place.run2.path, tmp_path / "run2")
    run = surelabel.open_run(tmp_path / "run2")
    run.folder.replace_config(run.config.replace(max_rounds=2))
    assert not run.summary.is_finished
    with pytest.raises(RunError, match="surelabel resume"):
        run.adapt(place.images, place.table, tmp_path / "out")


def test_certify_labels_bound_what_was_accepted(place: Place, tmp_path: Path) -> None:
    table = few_labels(tmp_path / "certify.csv", split_of, upto=160)
    made = place.adapt(table, tmp_path / "made", max_error="0.5")
    record = made.summary.certification
    assert record is not None
    assert record.holds
    assert made.summary.n_labeled


def test_labels_that_are_drawn_afterwards_bound_it_too(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.alone, tmp_path / "made-alone")
    made = place.adapt(place.table, tmp_path / "made", max_error="0.4")
    assert made.summary.certification is None
    table = certify_table(made.folder, 30)
    table["label"] = table["path"].map(truth)
    made.add(labels=table[["path", "label", "split"]])
    made.resume()
    record = made.summary.certification
    assert record is not None
    assert record.holds
    assert len(made.rounds) == 1
    n_wrong = (made.annotations["label"] != made.annotations["path"].map(truth)).sum()
    assert n_wrong <= 0.4 * len(made.annotations)


def test_labels_that_an_earlier_version_refused_stay_refused(place: Place, tmp_path: Path) -> None:
    metrics = {"learner": {"adaptation": {"is_trusted": False}}}
    assert is_refused_adaptation(metrics)
    assert not is_refused_adaptation({"learner": {}})
    last = place.adapted.folder.last_round()
    assert last is not None
    assert not is_refused_adaptation(last.metrics)


def test_what_a_killed_call_left_is_replaced(place: Place, tmp_path: Path) -> None:
    left = tmp_path / "out.partial"
    left.mkdir()
    (left / "notes.txt").write_text("my own")
    with pytest.raises(InputError, match="in the way"):
        place.adapt(place.table, tmp_path / "out")
    assert (left / "notes.txt").read_text() == "my own"
    shutil.rmtree(left)
    shutil.copytree(place.adapted.path, left)
    made = place.adapt(place.table, tmp_path / "out")
    assert not left.exists()
    assert facts(made)["chosen"] == facts(place.adapted)["chosen"]


def test_what_other_commands_make_of_it(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.adapted.path, tmp_path / "run")
    run = surelabel.open_run(tmp_path / "run")
    page = run.report().read_text(encoding="utf-8")
    assert facts(run)["chosen"] in page
    for name in ("labels-accuracy", "labels-aurc", "centroids"):
        assert f'<figure id="{name}">' in page
    joined = centroids(run)
    assert f"{int((~joined['is_adapted']).sum())} of the old images" in page
    assert run.export("folder", tmp_path / "classes") == run.summary.n_images
    checks = run.write_checks(10, tmp_path / "checks.csv")
    lines = checks.path.read_text(encoding="utf-8").splitlines()
    answered = [f"{line.rstrip(',')},right" for line in lines[1:]]
    checks.path.write_text("\n".join([lines[0], *answered]) + "\n", encoding="utf-8")
    assert run.audit(checks.path).all.n_wrong == 0


def test_the_command_labels_and_says_which_way(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place.alone, tmp_path / "made-alone")
    start = ["adapt", str(place.run2.path), str(place.images), "--labels", str(place.table)]
    more = ["--out", str(tmp_path / "made"), "--no-report", "--k", str(KS[0])]
    assert command_line([*start, *more]) == 0
    shown = " ".join(capsys.readouterr().err.split())
    assert facts(surelabel.open_run(tmp_path / "made"))["chosen"] in shown


def test_the_labels_alone_are_used_where_nothing_is_better_and_it_is_said(place: Place) -> None:
    summary, reported = place.adapted.summary, facts(place.adapted)
    changed = dict(reported, chosen=reported["alone"], classes_unused=["plain"])
    last = replace(summary.rounds[-1], learner={"adaptation": changed})
    text = adaptation_sentences(replace(summary, rounds=(last,)))
    assert any("does not help" in each and reported["run_alone"] in each for each in text)
    assert "'plain'" in text[-1]
    ruled = dict(reported, chosen="mixture", by_rule=True)
    last = replace(summary.rounds[-1], learner={"adaptation": ruled})
    text = adaptation_sentences(replace(summary, rounds=(last,)))
    assert any("only one of their class" in each and "44 labels" in each for each in text)


def test_an_adaptation_of_an_earlier_version_can_be_shown(place: Place) -> None:
    earlier = {"run2": "old", "k": 7, "gap_sentence": "Far.", "classes_unused": []}
    summary = place.adapted.summary
    for is_trusted in (True, False):
        learner = {"adaptation": {**earlier, "is_trusted": is_trusted}}
        shown = replace(summary, rounds=(replace(summary.rounds[-1], learner=learner),))
        assert len(adaptation_sentences(shown)) == 2
