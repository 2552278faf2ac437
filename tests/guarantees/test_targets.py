from __future__ import annotations

import numpy as np
import pytest

from surelabel.errors import OptionError
from surelabel.guarantees.certification import CertifySample, Finding
from surelabel.guarantees.targets import (
    REST,
    ErrorTargets,
    certify_families,
    class_thresholds,
    families,
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
        ("0.02, OK=0.001", ErrorTargets(0.02, by_class={"OK": 0.001})),
        ("each=0.05", ErrorTargets(each=0.05)),
        ("a=b=0.1", ErrorTargets(by_class={"a=b": 0.1})),
    ],
)
def test_targets_are_read(text: str, targets: ErrorTargets) -> None:
    assert parse_targets(text) == targets
    assert bool(targets) == bool(text)


@pytest.mark.parametrize("text", ["2", "0", "much", "OK=", "OK=-1", "0.1,each=0.1"])
def test_targets_that_make_no_sense_get_a_sentence(text: str) -> None:
    with pytest.raises(OptionError, match="max_error is"):
        parse_targets(text)


def test_families_divide_the_classes() -> None:
    found = families(parse_targets("0.02,OK=0.001"), CLASSES)
    assert {name: error for name, (error, _) in found.items()} == {"OK": 0.001, REST: 0.02}
    members = np.stack([members for _, members in found.values()])
    assert members.sum(axis=0).tolist() == [1, 1, 1]
    assert list(families(parse_targets("each=0.05"), CLASSES)) == list(CLASSES)
    assert list(families(parse_targets("dent=0.05"), CLASSES)) == ["dent"]
    with pytest.raises(OptionError, match="'rust', and the classes are OK, scratch, dent"):
        families(parse_targets("rust=0.1"), CLASSES)


def test_each_family_gets_its_share_of_delta_and_its_own_threshold() -> None:
    rng = np.random.default_rng(4)
    n = 6000
    guess = rng.integers(0, 3, n)
    scores = rng.random(n)
    wrong = (guess == 1) & (scores > 0.5) & (rng.random(n) < 0.5)
    checked = rng.random(n) < 0.5
    sample = CertifySample(scores, np.arange(n), checked, wrong)
    wanted = families(parse_targets("each=0.02"), CLASSES)
    verdicts = certify_families(sample, guess, wanted, 0.06)
    assert [v.delta for v in verdicts.values()] == pytest.approx([0.02] * 3)
    assert all(v.finding is Finding.CERTIFIED for v in verdicts.values())
    thresholds = class_thresholds(verdicts, wanted, np.full(3, 0.1))
    assert thresholds[0] > 0.99
    assert thresholds[2] > 0.99
    assert 0.4 < thresholds[1] < 0.56


def test_a_family_that_is_refused_falls_back() -> None:
    n = 300
    checked = np.arange(n) < 20
    sample = CertifySample(np.linspace(0, 1, n), np.arange(n), checked, np.zeros(n, dtype=bool))
    wanted = families(parse_targets("OK=0.01"), CLASSES)
    verdicts = certify_families(sample, np.zeros(n, dtype=np.int64), wanted, 0.05)
    assert verdicts["OK"].finding is Finding.TOO_FEW
    fallback = np.array([0.1, 0.2, 0.3])
    assert (class_thresholds(verdicts, wanted, fallback) == fallback).all()
