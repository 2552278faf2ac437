from __future__ import annotations

import numpy as np
import pytest

from surelabel.errors import OptionError
from surelabel.guarantees.certification import CertificationStatus, CertifySample
from surelabel.guarantees.targets import (
    OTHER_CLASSES,
    ErrorTargets,
    Scope,
    certify_targets,
    list_targets,
    parse_targets,
)

CLASSES = ("OK", "scratch", "dent")


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("", ErrorTargets()),
        ("0.02", ErrorTargets(0.02)),
        ("2%", ErrorTargets(0.02)),
        ("OK=0.001", ErrorTargets(by_class={"OK": 0.001})),
        ("accepted=0.02", ErrorTargets(accepted=0.02)),
        ("0.02, OK=0.001", ErrorTargets(0.02, by_class={"OK": 0.001})),
        ("each=0.05", ErrorTargets(each=0.05)),
        ("a=b=0.1", ErrorTargets(by_class={"a=b": 0.1})),
    ],
)
def test_targets_are_read(text: str, targets: ErrorTargets) -> None:
    assert parse_targets(text) == targets
    assert bool(targets) == bool(text)


@pytest.mark.parametrize("text", ["2", "0", "much", "OK=", "OK=-1", "accepted=0.1,each=0.1"])
def test_targets_that_make_no_sense_get_a_sentence(text: str) -> None:
    with pytest.raises(OptionError, match="max_error is"):
        parse_targets(text)


def test_every_class_is_in_one_target_of_accepted_labels() -> None:
    targets = list_targets(parse_targets("0.03,accepted=0.02,OK=0.001"), CLASSES)
    dataset, *parts = targets
    assert (dataset.scope, dataset.max_error) == (Scope.DATASET, 0.03)
    assert dataset.members.all()
    assert {part.name: part.max_error for part in parts} == {"OK": 0.001, OTHER_CLASSES: 0.02}
    members = np.stack([part.members for part in parts])
    assert members.sum(axis=0).tolist() == [1, 1, 1]
    names = [target.name for target in list_targets(parse_targets("each=0.05"), CLASSES)]
    assert names == list(CLASSES)
    assert [t.name for t in list_targets(parse_targets("dent=0.05"), CLASSES)] == ["dent"]
    with pytest.raises(OptionError, match=r"'rust'.* OK, scratch, dent"):
        list_targets(parse_targets("rust=0.1"), CLASSES)


def test_no_class_exceeds_the_threshold_of_the_dataset() -> None:
    rng = np.random.default_rng(6)
    n = 4000
    guess, scores = rng.integers(0, 3, n), rng.random(n)
    wrong = (guess != 0) & (scores > 0.7)
    sample = CertifySample(scores, np.arange(n), rng.random(n) < 0.4, wrong)
    targets = list_targets(parse_targets("0.02,OK=0.05"), CLASSES)
    dataset, ok = certify_targets(sample, guess, targets, 0.05, n_labels=n)
    assert 0.7 < dataset.threshold < 0.8
    assert 0.69 < ok.threshold <= dataset.threshold


def test_each_target_gets_its_share_of_delta_and_its_own_threshold() -> None:
    rng = np.random.default_rng(4)
    n = 6000
    guess = rng.integers(0, 3, n)
    scores = rng.random(n)
    wrong = (guess == 1) & (scores > 0.5) & (rng.random(n) < 0.5)
    checked = rng.random(n) < 0.5
    sample = CertifySample(scores, np.arange(n), checked, wrong)
    targets = list_targets(parse_targets("each=0.02"), CLASSES)
    results = certify_targets(sample, guess, targets, 0.06, n_labels=n)
    assert [result.delta for result in results] == pytest.approx([0.02] * 3)
    assert all(result.status is CertificationStatus.CERTIFIED for result in results)
    thresholds = [result.threshold for result in results]
    assert thresholds[0] > 0.99
    assert thresholds[2] > 0.99
    assert 0.4 < thresholds[1] < 0.56


def test_a_target_with_too_few_certify_images_has_no_threshold() -> None:
    n = 300
    checked = np.arange(n) < 20
    sample = CertifySample(np.linspace(0, 1, n), np.arange(n), checked, np.zeros(n, dtype=bool))
    targets = list_targets(parse_targets("OK=0.01"), CLASSES)
    guess = np.zeros(n, dtype=np.int64)
    (result,) = certify_targets(sample, guess, targets, 0.05, n_labels=n)
    assert result.status is CertificationStatus.TOO_FEW
    assert result.threshold == -np.inf


def test_a_bare_percent_is_refused_with_what_to_write() -> None:
    assert parse_targets("2%").dataset == pytest.approx(0.02)
    with pytest.raises(OptionError, match=r"2% or 0\.02"):
        parse_targets("2")
