from __future__ import annotations

import copy

import pytest
import torch
from training_problems import PLAIN, same_weights, tiny_net, weights_of

from surelabel.training.trainer import update_average


def test_each_weight_moves_by_one_minus_decay_of_the_way() -> None:
    net, average = tiny_net(PLAIN, seed=1), tiny_net(PLAIN, seed=2)
    before = weights_of(average)
    update_average(average, net, decay=0.9, step=10**6)
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            expected = 0.9 * before[name] + 0.1 * value
            torch.testing.assert_close(average.state_dict()[name], expected, msg=name)


@pytest.mark.parametrize(("step", "kept"), [(0, 1 / 10), (10, 11 / 20), (90, 91 / 100)])
def test_early_on_it_moves_faster_so_that_the_start_is_forgotten(step: int, kept: float) -> None:
    net, average = tiny_net(PLAIN, seed=1), tiny_net(PLAIN, seed=2)
    with torch.no_grad():
        for weight in net.parameters():
            weight.zero_()
        for weight in average.parameters():
            weight.fill_(1.0)
    update_average(average, net, decay=0.999, step=step)
    for weight in average.parameters():
        torch.testing.assert_close(weight, torch.full_like(weight, kept))


def test_the_average_of_a_constant_is_that_constant_and_the_net_is_not_touched() -> None:
    net = tiny_net(PLAIN, seed=1)
    average = copy.deepcopy(net)
    before = weights_of(net)
    for step in range(5):
        update_average(average, net, decay=0.99, step=step)
    assert same_weights(weights_of(net), before)
    assert same_weights(weights_of(average), before)


def test_statistics_of_the_norms_are_averaged_and_counters_are_copied() -> None:
    net, average = tiny_net(PLAIN, seed=1), tiny_net(PLAIN, seed=1)
    norm = next(m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d))
    slow = next(m for m in average.modules() if isinstance(m, torch.nn.BatchNorm2d))
    assert norm.running_mean is not None
    assert slow.running_mean is not None
    assert norm.num_batches_tracked is not None
    norm.running_mean.fill_(1.0)
    norm.num_batches_tracked.fill_(7)
    update_average(average, net, decay=0.75, step=10**6)
    torch.testing.assert_close(slow.running_mean, torch.full_like(slow.running_mean, 0.25))
    assert slow.num_batches_tracked == 7
