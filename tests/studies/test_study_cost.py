from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet
from surelabel.models.growing_densenet import GrowingDenseNet
from surelabel.models.nets import CompactNet
from surelabel.selftraining.metrics import RoundMetrics
from surelabel_studies.mnist.cost import (
    Cost,
    Macs,
    cheapest_of_the_paper,
    cost_of,
    count_macs,
    paper_cost,
)
from surelabel_studies.mnist.rows import row_named


def test_macs_of_a_convolution_and_a_dense_layer() -> None:
    stem = nn.Sequential(nn.Conv2d(2, 5, 3, stride=2, padding=1), nn.BatchNorm2d(5), nn.Flatten())
    net = BayesianNet(stem, nn.Linear(5 * 4 * 4, 3), 2)
    assert count_macs(net, 2, 8) == Macs(stem=4 * 4 * 5 * 2 * 9, tail=80 * 3)


def test_counting_leaves_the_net_as_it_was() -> None:
    net = CompactNet(28, 1, 10, Config()).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    count_macs(net, 1, 28)
    assert net.training
    assert all((value == before[name]).all() for name, value in net.state_dict().items())
    assert not any(layer._forward_hooks for layer in net.modules())


def test_macs_of_the_compact_net_are_the_sum_over_its_layers() -> None:
    """28 pixels: a 5x5 of stride 2 to 14, two 3x3 at 14, two 3x3 at 7, then the dense tail."""
    macs = count_macs(CompactNet(28, 1, 10, Config()), 1, 28)
    first, second = 14 * 14 * 16 * 25, 14 * 14 * 9 * (16 * 32 + 32 * 32)
    third = 7 * 7 * 9 * (32 * 64 + 64 * 64)
    assert macs == Macs(first + second + third, 128 * 128 + 128 * 11)


def test_macs_of_the_densenet_follow_from_its_shape() -> None:
    k, side, width, tail = 12, 28, 24, 0
    for block in range(3):
        for _ in range(6):
            tail += side * side * (width * 4 * k + 4 * k * k * 9)
            width += k
        if block < 2:
            tail += side * side * width * (width // 2)
            width, side = width // 2, side // 2
    tail += width * 11
    net = GrowingDenseNet(k, 1, 10, Config(net=Net.DENSENET))
    assert count_macs(net, 1, 28) == Macs(28 * 28 * 24 * 9, tail)


def metrics(n_members: int, *, n_pool: int, n_pseudo: int, n_held_out: int) -> RoundMetrics:
    member = {"size": 28, "channels": 1, "n_classes": 10, "k": 0, "images_seen": 1000}
    return RoundMetrics(
        number=1,
        inputs="",
        n_human=20,
        n_pseudo=n_pseudo,
        n_pool=n_pool,
        n_accepted=0,
        n_left=n_pool,
        n_changed=0,
        threshold=0.0,
        n_held_out=n_held_out,
        held_out_errors=0,
        n_held_out_accepted=0,
        held_out_accepted_errors=0,
        classes=tuple("0123456789"),
        learner={"members": [member] * n_members},
    )


def test_the_cost_of_a_round() -> None:
    macs = count_macs(CompactNet(28, 1, 10, Config()), 1, 28)
    done = metrics(2, n_pool=100, n_pseudo=30, n_held_out=50)
    relabel = cost_of([done], Config(mc_samples=30, consistency=0.0))
    assert relabel.training == 2 * 1000 * macs.forward
    assert relabel.scoring == 2 * 150 * (macs.stem + 30 * macs.tail)
    plain = {"mc_samples": 1, "mode": "keep", "consistency": 0.0}
    keep = cost_of([done], Config.from_mapping(plain))
    assert keep.scoring == 2 * 120 * macs.forward
    taught = cost_of([done], Config.from_mapping({**plain, "consistency": 1.0}))
    assert taught.scoring == keep.scoring + taught.training
    assert Cost(2.0, 1.0).total == 7.0


def test_who_asks_look_alikes_compares_with_the_pool_and_people() -> None:
    done = metrics(2, n_pool=100, n_pseudo=30, n_held_out=50)
    alone = cost_of([done], Config())
    asking = cost_of([replace(done, neighbor_vote=0.5)], Config())
    assert asking.scoring - alone.scoring == 150 * 120 * 14 * 14


@pytest.mark.parametrize(("consistency", "n_asking"), [(1.0, 150 + 40), (0.0, 150)])
def test_images_left_ask_again_for_a_round_that_learns_from_guesses_of_them(
    consistency: float, n_asking: int
) -> None:
    done = replace(metrics(2, n_pool=100, n_pseudo=0, n_held_out=50), n_left=40)
    rounds = [done, replace(done, n_left=10)]
    config = Config(consistency=consistency)
    alone = cost_of(rounds, config)
    asking = cost_of([replace(each, neighbor_vote=0.5) for each in rounds], config)
    assert asking.scoring - alone.scoring == (n_asking + 150) * 120 * 14 * 14


def test_out_of_fold_each_label_is_scored_once() -> None:
    done = metrics(2, n_pool=100, n_pseudo=0, n_held_out=20)
    macs = count_macs(CompactNet(28, 1, 10, Config()), 1, 28)
    config = Config(mc_samples=1, consistency=0.0)
    cost = cost_of([done], config, n_folds=2)
    assert cost.scoring == 2 * 110 * macs.forward
    assert cost_of([done], config).scoring == 2 * 120 * macs.forward


def test_the_papers_cost_is_its_schedule() -> None:
    """An ensemble trains five nets, with as many images more as it labels in more rounds."""
    row = row_named("dst")
    cost = paper_cost(row)
    smallest = count_macs(GrowingDenseNet(12, 1, 10, Config(net=Net.DENSENET)), 1, 28).forward
    largest = count_macs(GrowingDenseNet(24, 1, 10, Config(net=Net.DENSENET)), 1, 28).forward
    seen = 75 * sum(500 + (54_500 - 781) * r / 15 for r in range(15))
    assert seen * smallest < cost.training < seen * largest
    assert paper_cost(row_named("dbst-2")).training * 4 < paper_cost(row_named("dest")).training
    assert cheapest_of_the_paper().total <= cost.total
    assert torch.is_grad_enabled()
    assert cost.total == pytest.approx(3 * cost.training + cost.scoring)
