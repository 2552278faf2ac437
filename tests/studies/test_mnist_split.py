from __future__ import annotations

import numpy as np
import pytest
from study_data import small_digits

from surelabel.errors import OptionError
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.mnist.split import (
    StudySplit,
    draw_split,
    draw_total,
    n_test_images,
    tune_per_class,
)


@pytest.fixture(scope="module")
def many() -> Digits:
    """As many images as MNIST has, of one pixel each: its own number in four bytes."""
    numbers = np.arange(60_000, dtype=np.uint32)
    images = numbers.view(np.uint8).reshape(-1, 2, 2)
    truth = np.random.default_rng(0).integers(0, 10, 60_000)
    return Digits(images, truth, images[:10_000], truth[:10_000])


def numbers(split: StudySplit, kind: str) -> set[int]:
    """The images in train, tune or pool, by the number that their pixels spell."""
    every = np.ascontiguousarray(split.images).reshape(-1, 4).view(np.uint32)[:, 0]
    given = split.labels["index"].astype(int).to_numpy()
    if kind == "pool":
        return set(np.delete(every, given).tolist())
    return set(every[given[(split.labels["split"] == kind).to_numpy()]].tolist())


def test_fifty_labels_five_hundred_to_tune_and_the_rest_as_pool(many: Digits) -> None:
    split = draw_split(many, seed=1)
    assert split.n_pool == 54_500
    assert len(split.test_truth) == 10_000
    for kind, n in (("train", 50), ("tune", 500)):
        chosen = split.labels[split.labels["split"] == kind]
        assert chosen["label"].value_counts().tolist() == [n] * 10
    at = split.labels["index"].astype(int).to_numpy()
    assert split.truth[at].astype(str).tolist() == split.labels["label"].tolist()
    assert split.truth.tolist() == many.train_labels.tolist()


def test_the_seed_draws_the_split(many: Digits) -> None:
    one, again, other = (draw_split(many, seed=s) for s in (1, 1, 2))
    assert numbers(one, "train") == numbers(again, "train")
    assert numbers(one, "train") != numbers(other, "train")


def test_fewer_labels_leave_tune_split_and_pool_as_they_are(many: Digits) -> None:
    whole, few = draw_split(many, seed=1), draw_split(many, seed=1, labels_per_class=4)
    assert numbers(few, "tune") == numbers(whole, "tune")
    assert numbers(few, "pool") == numbers(whole, "pool")
    assert numbers(few, "train") < numbers(whole, "train")
    assert len(numbers(few, "train")) == 40


def test_a_smaller_pool_has_fewer_tune_and_test_images(many: Digits) -> None:
    small = draw_split(many, seed=1, pool_size=2000)
    assert small.n_pool == 2000
    assert len(numbers(small, "tune")) == 500
    assert len(small.test_truth) == 1000
    assert numbers(small, "pool") <= numbers(draw_split(many, seed=1), "pool") | numbers(
        draw_split(many, seed=1), "tune"
    )
    assert len(draw_split(many, seed=1, pool_size=200, test_size=70).test_truth) == 70


def test_sizes_in_proportion() -> None:
    assert [tune_per_class(n) for n in (0, 60, 2000, 10_000, 54_500)] == [500, 20, 50, 250, 500]
    assert [n_test_images(n, 10_000) for n in (60, 10_000, 54_500)] == [1000, 1835, 10_000]


def test_a_total_is_drawn_uniformly_and_the_split_left_to_the_tool(many: Digits) -> None:
    split = draw_total(many, 3, 100)
    assert "split" not in split.labels
    assert (len(split.labels), split.n_pool) == (100, 59_900)
    assert len(set(split.labels["label"].value_counts())) > 1, "not so many a class"
    assert draw_total(many, 3, 100, pool_size=500).n_pool == 500


def test_more_than_there_is_gets_a_sentence() -> None:
    with pytest.raises(OptionError, match="pool-size is 5000"):
        draw_split(small_digits(), 0, pool_size=5000)
    with pytest.raises(OptionError, match="up to 50"):
        draw_split(small_digits(), 0, labels_per_class=51)
