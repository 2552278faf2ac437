from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.dataset.items import item_ids, string_array
from surelabel.dataset.splits import LabeledItems, check_counts, connected_components, divide
from surelabel.errors import LabelsError, TooFewLabelsError
from surelabel.types import Ids


def items_of(labels: list[int], **columns: list[str]) -> LabeledItems:
    n = len(labels)
    blank = [""] * n
    return LabeledItems(
        ids=item_ids(f"{i}.png" for i in range(n)),
        labels=np.array(labels, dtype=np.int64),
        splits=string_array(columns.get("splits", blank)),
        groups=string_array(columns.get("groups", blank)),
        digests=string_array(columns.get("digests", [f"{i:032x}" for i in range(n)])),
        is_random=np.array(columns.get("picked", blank)) == "",
        where=string_array(f"labels.csv:{i + 2}" for i in range(n)),
    )


def take(items: LabeledItems, order: Any) -> LabeledItems:
    names = ("ids", "labels", "splits", "groups", "digests", "is_random", "where")
    return LabeledItems(**{name: getattr(items, name)[order] for name in names})


def split(
    items: LabeledItems, seed: int = 0, share: float = 0.2, keep: bool = False
) -> tuple[Ids, bool]:
    return divide(items, seed=seed, tune_share=share, keep_tune=keep)


def test_a_fifth_of_each_class_is_held_out() -> None:
    items = items_of([0] * 100 + [1] * 200 + [2] * 15)
    splits, cross_fit = split(items)
    assert not cross_fit
    assert np.bincount(items.labels[splits == "tune"]).tolist() == [20, 40, 3]


@pytest.mark.parametrize(
    ("labels", "share"),
    [
        ([0, 0, 1, 1], 0.2),
        ([0] * 95 + [1] * 95, 0.2),
        ([0] * 500 + [1] * 500, 0.0),
    ],
)
def test_too_little_to_tune_on_means_cross_fitting(labels: list[int], share: float) -> None:
    splits, cross_fit = split(items_of(labels), share=share)
    assert cross_fit
    assert set(splits.tolist()) == {"train"}


def test_a_rare_class_does_not_take_the_tune_split_from_the_others() -> None:
    items = items_of([0] * 350 + [1] * 7 + [2] * 2)
    splits, cross_fit = split(items)
    assert not cross_fit
    assert np.bincount(items.labels[splits == "tune"], minlength=3).tolist() == [70, 1, 0]


def test_labels_that_were_picked_are_trained_on_and_those_tied_to_them() -> None:
    items = items_of(
        [0, 1] * 200, picked=["x"] * 100 + [""] * 300, groups=[""] * 99 + ["g"] * 2 + [""] * 299
    )
    splits, cross_fit = split(items)
    assert not cross_fit
    assert set(splits[:101].tolist()) == {"train"}
    assert int((splits == "tune").sum()) == 80


def test_forty_are_enough() -> None:
    splits, cross_fit = split(items_of([0] * 100 + [1] * 100))
    assert not cross_fit
    assert int((splits == "tune").sum()) == 40


def test_another_seed_is_another_split() -> None:
    items = items_of([0, 1] * 200)
    assert split(items, 1)[0].tolist() != split(items, 2)[0].tolist()


@st.composite
def collections(draw: st.DrawFn) -> LabeledItems:
    """Labeled images, some in groups, some identical, some with a settled split."""
    n = draw(st.integers(4, 300))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    groups = rng.integers(0, draw(st.integers(1, n)), n)
    grouped = rng.random(n) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    digests = rng.integers(0, draw(st.sampled_from([n // 2 + 1, 10**9])), n)
    settled = rng.random(n) < draw(st.sampled_from([0.0, 0.2]))
    given = np.where(groups % 2 == 0, "train", "certify")
    return items_of(
        rng.integers(0, draw(st.integers(2, 5)), n).tolist(),
        groups=np.where(grouped, [f"g{g}" for g in groups], "").tolist(),
        digests=[f"{d:032x}" for d in digests],
        splits=np.where(settled, given, "").tolist(),
    )


@settings(deadline=None, max_examples=60)
@given(collections(), st.integers(0, 100), st.sampled_from([0.1, 0.2, 0.5, 0.9]))
def test_the_laws_of_splitting(items: LabeledItems, seed: int, share: float) -> None:
    splits, cross_fit = split(items, seed, share)
    assert set(splits.tolist()) <= {"train", "tune", "certify"}
    settled = items.splits != ""
    assert (splits[settled] == items.splits[settled]).all()
    for group in set(items.groups.tolist()) - {""}:
        assert len(set(splits[items.groups == group].tolist())) == 1
    open_ = (splits != "certify") & (items.splits == "")
    for digest in set(items.digests.tolist()):
        identical = open_ & (items.digests == digest)
        assert len(set(splits[identical].tolist())) <= 1
        if len(set(items.labels[identical].tolist())) > 1:
            assert set(splits[identical].tolist()) == {"train"}
    usable = items.labels[splits != "certify"]
    assert set(usable.tolist()) == set(items.labels[splits == "train"].tolist())
    assert cross_fit == (not (splits == "tune").any())
    order = np.random.default_rng(seed).permutation(len(splits))
    again, same = split(take(items, order), seed, share)
    assert again.tolist() == splits[order].tolist()
    assert same == cross_fit


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(10, 200), min_size=2, max_size=6), st.integers(0, 9))
def test_single_images_are_split_exactly(sizes: list[int], seed: int) -> None:
    items = items_of([k for k, size in enumerate(sizes) for _ in range(size)])
    splits, cross_fit = split(items, seed)
    if not cross_fit:
        counts = np.bincount(items.labels[splits == "tune"], minlength=len(sizes))
        assert counts.tolist() == [int(size * 0.2 + 0.5) for size in sizes]


def test_large_groups_come_near_the_share() -> None:
    groups = [f"lot {i // 25}" for i in range(1000)]
    items = items_of([i % 2 for i in range(1000)], groups=groups)
    splits, _ = split(items)
    assert 150 <= int((splits == "tune").sum()) <= 250


def test_a_given_tune_split_is_left_as_it_is() -> None:
    given_splits = ["tune"] * 3 + [""] * 397
    splits, cross_fit = split(items_of([0, 1] * 200, splits=given_splits), keep=True)
    assert not cross_fit
    assert splits.tolist() == ["tune"] * 3 + ["train"] * 397


def test_what_is_settled_spreads_to_group_and_twin() -> None:
    items = items_of(
        [0, 0, 0, 1, 1, 1],
        splits=["tune", "", "", "certify", "", ""],
        groups=["a", "a", "", "b", "b", ""],
        digests=["1", "2", "2", "4", "5", "4"],
    )
    splits, _ = split(items, keep=True)
    assert splits.tolist() == ["tune", "tune", "tune", "certify", "certify", "train"]


def test_a_group_in_two_splits_is_refused_with_both_lines() -> None:
    items = items_of([0, 0, 1], splits=["train", "", "tune"], groups=["lot", "", "lot"])
    with pytest.raises(LabelsError, match=r"labels.csv:4: the group 'lot' .* labels.csv:2"):
        split(items)


def test_components_join_through_any_key() -> None:
    unit = connected_components(
        string_array(["a", "", "a", "b", ""]), string_array(["1", "1", "2", "3", "4"])
    )
    assert unit[0] == unit[1] == unit[2]
    assert len({unit[0], unit[3], unit[4]}) == 3


@pytest.mark.parametrize(
    ("labels", "splits", "classes", "sentence"),
    [
        ([], [], (), "There are no labels yet, and at least two classes"),
        ([0, 0], ["train"] * 2, ("cat",), "only the class 'cat'"),
        ([0, 0, 1], ["train"] * 3, ("cat", "dog"), "'dog' has 1. .*surelabel draw"),
        ([0, 0, 1, 1], ["train"] * 3 + ["certify"], ("cat", "dog"), "'dog' has 1"),
        ([0, 0, 0, 0], ["train"] * 4, ("cat", "dog"), "'dog' has 0"),
        ([0, 0, 1, 1], ["train"] * 2 + ["tune"] * 2, ("cat", "dog"), "Every label of .*'dog'"),
    ],
)
def test_too_few_labels_are_named(
    labels: list[int], splits: list[str], classes: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(TooFewLabelsError, match=sentence):
        check_counts(np.array(labels, dtype=np.int64), string_array(splits), classes)
