from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.training.batches import BatchSampler, EndlessSampler


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 3), st.integers(0, 100))
def test_each_pass_visits_every_position_exactly_once(n: int, number: int, seed: int) -> None:
    walked = EndlessSampler(n, seed).take(number * n, n)
    assert sorted(walked.tolist()) == list(range(n))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(0, 30))
def test_a_sampler_has_one_order_however_it_is_cut(n: int, starts: list[int], count: int) -> None:
    whole = EndlessSampler(n, 5).take(0, 100).tolist()
    cut = EndlessSampler(n, 5)
    for start in starts:
        assert cut.take(start, count).tolist() == whole[start : start + count]


def test_passes_and_seeds_have_orders_of_their_own() -> None:
    stream = EndlessSampler(30, 1)
    first, second = stream.take(0, 30), stream.take(30, 30)
    assert not torch.equal(first, second)
    assert not torch.equal(first, EndlessSampler(30, 2).take(0, 30))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 300),
    st.integers(2, 40),
    st.floats(0, 1),
    st.integers(0, 20),
)
def test_human_labels_keep_their_share_of_every_batch(
    n_human: int, n_pseudo: int, size: int, share: float, step: int
) -> None:
    batches = BatchSampler(n_human, n_pseudo, size, share, seed=3)
    batch = batches(step)
    assert len(batch) == size
    assert int(batch.min()) >= 0
    assert int(batch.max()) < n_human + n_pseudo
    human = int((batch < n_human).sum())
    if n_human / (n_human + n_pseudo) < share:
        assert human == min(size - 1, max(1, math.ceil(size * share - 1e-6)))


@pytest.mark.parametrize(("size", "share"), [(10, 0.25), (6, 0.75), (7, 0.35), (128, 0.25)])
def test_human_labels_are_at_least_their_share_where_it_is_not_a_whole_number(
    size: int, share: float
) -> None:
    batches = BatchSampler(5, 5000, size, share, seed=0)
    human = int((batches(0) < 5).sum())
    assert share <= human / size < share + 1 / size


def test_a_batch_always_holds_a_pseudo_label_if_there_is_one() -> None:
    assert int((BatchSampler(5, 50, 8, 1.0, seed=0)(0) >= 5).sum()) == 1


def test_human_and_pseudo_labels_are_each_sampled_in_passes() -> None:
    batches = BatchSampler(n_human=4, n_pseudo=24, batch_size=8, human_share=0.5, seed=2)
    seen = torch.cat([batches(step) for step in range(6)]).tolist()
    assert sorted(p for p in seen if p < 4) == sorted(list(range(4)) * 6)
    assert sorted(p for p in seen if p >= 4) == list(range(4, 28))


def test_where_the_natural_share_is_enough_all_labels_are_sampled_alike() -> None:
    batches = BatchSampler(n_human=30, n_pseudo=10, batch_size=8, human_share=0.25, seed=2)
    seen = torch.cat([batches(step) for step in range(5)])
    assert sorted(seen.tolist()) == list(range(40))


def test_without_pseudo_labels_each_pass_visits_every_human_label_once() -> None:
    batches = BatchSampler(n_human=12, n_pseudo=0, batch_size=4, human_share=0.25, seed=2)
    seen = torch.cat([batches(step) for step in range(6)]).tolist()
    assert sorted(seen[:12]) == list(range(12))
    assert sorted(seen[12:]) == list(range(12))


@settings(max_examples=30, deadline=None)
@given(
    st.permutations(list(range(12))),
    st.integers(1, 9),
    st.integers(0, 40),
    st.sampled_from([0.0, 0.25, 0.9]),
)
def test_a_batch_is_a_function_of_its_step_in_whatever_order_steps_are_drawn(
    order: list[int], n_human: int, n_pseudo: int, share: float
) -> None:
    batches = BatchSampler(n_human, n_pseudo, 6, share, seed=4)
    for step in order:
        fresh = BatchSampler(n_human, n_pseudo, 6, share, seed=4)
        assert torch.equal(batches(step), fresh(step))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 300),
    st.integers(0, 300),
    st.floats(0, 1),
    st.integers(0, 20),
)
def test_images_without_a_label_keep_their_share_but_not_beyond_four_times_the_natural_one(
    n_human: int, n_labeled: int, n_left: int, share: float, step: int
) -> None:
    n_pseudo = n_labeled + n_left
    batches = BatchSampler(n_human, n_pseudo, 40, 0.25, seed=3, n_left=n_left, left_share=share)
    batch = batches(step)
    assert len(batch) == 40
    assert int(batch.max()) < n_human + n_pseudo
    natural = n_left / n_pseudo
    if n_human / (n_human + n_pseudo) < 0.25 and natural < min(share, 4 * natural):
        assert int((batch < n_human).sum()) == 10
        left = int((batch >= n_human + n_labeled).sum())
        assert left == min(29, round(30 * min(share, 4 * natural)))


def test_images_with_and_without_a_label_are_each_sampled_in_passes() -> None:
    batches = BatchSampler(4, 24, 8, 0.5, seed=2, n_left=6, left_share=0.5)
    seen = torch.cat([batches(step) for step in range(9)]).tolist()
    assert sorted(p for p in seen if 4 <= p < 22) == list(range(4, 22))
    assert sorted(p for p in seen if p >= 22) == sorted(list(range(22, 28)) * 3)


def test_a_pool_without_any_label_is_sampled_as_one() -> None:
    plain = BatchSampler(4, 24, 8, 0.5, seed=2)
    left = BatchSampler(4, 24, 8, 0.5, seed=2, n_left=24, left_share=0.67)
    assert all(torch.equal(plain(step), left(step)) for step in range(9))
