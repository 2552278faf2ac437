from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from training_problems import (
    PLAIN,
    Snapshots,
    halves,
    last_layer,
    same_weights,
    silence,
    tiny_net,
    training_set,
    weights_of,
)

from surelabel.config.choices import ClassWeighting, Dropout, Optimizer, Schedule
from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet
from surelabel.models.placement import Placement
from surelabel.training.trainer import Trainer, TrainingSet
from surelabel.types import Progress

#: Everything that is random in a real run.
LIVELY = PLAIN.replace(
    augment=True,
    dropout=Dropout.CONCRETE,
    dropout_p=0.2,
    noise_samples=4,
    weight_average=0.9,
)


def trained(
    config: Config, data: TrainingSet, steps: int = 4, seed: int = 0, n_classes: int = 2
) -> dict[str, Tensor]:
    net = tiny_net(config, n_classes=n_classes)
    Trainer(net, data, config, steps=steps, seed=seed).run()
    return weights_of(net)


def bias_after_one_step(
    config: Config, data: TrainingSet, net: BayesianNet, average: BayesianNet | None = None
) -> Tensor:
    """The biases of the classes in the net itself (not the average) after the first step."""
    trainer = Trainer(net, data, config, steps=2, seed=0)
    if average is not None:
        trainer.average.load_state_dict(average.state_dict())
    snapshots = Snapshots({})
    trainer.run(snapshots)
    return snapshots.at[1]["net/tail.out.bias"][:-1]


@pytest.mark.parametrize("mixed", [False, True])
def test_it_learns_a_separable_problem_with_everything_switched_on(mixed: bool) -> None:
    config = LIVELY.replace(
        consistency=1.0,
        consistency_threshold=0.9,
        batch_size=16,
        learning_rate=0.01,
        schedule=Schedule.ONE_CYCLE,
    )
    data = training_set([0, 1] * 8, [-1] * 16 + [0, 1] * 4, [0, 1] * 4, truth=[0, 1] * 24)
    net = tiny_net(config)
    placement = Placement(torch.device("cpu"), mixed_precision=mixed)
    report = Trainer(net, data, config, steps=50, seed=1, placement=placement).run()
    truth = [0, 1] * 50
    with torch.no_grad():
        logits = net(net.standardize(halves(truth, seed=9)(torch.arange(100))))[:, :-1]
    assert float((logits.argmax(dim=1) == torch.tensor(truth)).float().mean()) > 0.95
    assert report.tune_loss < 0.4
    assert not net.training


def test_the_report_has_steps_images_and_tune_loss() -> None:
    net = tiny_net(PLAIN)
    data = training_set([0, 1] * 4, tune=[0, 1, 1])
    report = Trainer(net, data, PLAIN, steps=3, seed=0).run()
    assert (report.steps, report.images_seen, report.stopped_early) == (3, 24, False)
    with torch.no_grad():
        logits = net(net.standardize(data.pixels(data.tune_rows)))[:, :-1]
    expected = functional.cross_entropy(logits, data.tune_labels)
    assert report.tune_loss == pytest.approx(float(expected), rel=1e-5)


def test_progress_starts_at_zero_and_ends_at_the_budget() -> None:
    reported: list[Progress] = []
    trainer = Trainer(tiny_net(PLAIN), training_set([0, 1] * 4), PLAIN, steps=12, seed=0)
    trainer.run(on_progress=reported.append)
    assert [p.done for p in reported] == sorted(p.done for p in reported)
    assert reported[0].done == 0
    assert reported[-1] == Progress("training", 12, 12)


def test_without_tune_labels_the_tune_loss_is_not_a_number() -> None:
    report = Trainer(tiny_net(PLAIN), training_set([0, 1] * 4), PLAIN, steps=1, seed=0).run()
    assert math.isnan(report.tune_loss)


def test_the_same_seed_trains_the_same_weights_whatever_the_global_seed() -> None:
    data = training_set([0, 1] * 6, [0, 1] * 6)
    torch.manual_seed(1)
    first = trained(LIVELY, data)
    torch.manual_seed(2)
    assert same_weights(trained(LIVELY, data), first)
    assert not same_weights(trained(LIVELY, data, seed=1), first)


@pytest.mark.parametrize("optimizer", list(Optimizer))
def test_without_pseudo_labels_it_is_plain_supervised_training(optimizer: Optimizer) -> None:
    config = PLAIN.replace(optimizer=optimizer, weight_decay=0.01)
    data = training_set([0, 1] * 6)
    net, reference = tiny_net(config), tiny_net(config)
    trainer = Trainer(net, data, config, steps=6, seed=0)
    trainer.run()
    groups = [
        {"params": [p for p in reference.parameters() if p.ndim > 1], "weight_decay": 0.01},
        {
            "params": [p for p in reference.parameters() if p.ndim == 1],
            "weight_decay": 0.0,
        },
    ]
    by_hand: torch.optim.Optimizer
    if optimizer is Optimizer.SGD:
        by_hand = torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)
    else:
        by_hand = torch.optim.AdamW(groups, lr=0.05)
    reference.train()
    for step in range(6):
        rows = trainer.batches(step)
        logits = reference(reference.standardize(data.pixels(rows)))[:, :-1]
        by_hand.zero_grad()
        functional.cross_entropy(logits, data.human_labels[rows]).backward()  # type: ignore[no-untyped-call]
        by_hand.step()
    expected = weights_of(reference)
    for name, value in weights_of(net).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4, msg=name)


def test_consistency_changes_nothing_where_every_image_has_a_label() -> None:
    data = training_set([0, 1] * 6, [0, 1] * 6)
    on = LIVELY.replace(consistency=5.0, consistency_threshold=0.0)
    assert same_weights(trained(on, data), trained(LIVELY, data))


def test_images_without_a_label_count_only_where_the_teacher_is_confident() -> None:
    data = training_set([0, 1] * 2, [-1] * 20)
    off = trained(LIVELY.replace(consistency=0.0), data)
    never_confident = trained(LIVELY.replace(consistency=1.0, consistency_threshold=1.0), data)
    always_confident = trained(LIVELY.replace(consistency=1.0, consistency_threshold=0.0), data)
    assert same_weights(never_confident, off)
    assert not same_weights(always_confident, off)


@pytest.mark.parametrize(("predicted", "confidence"), [(1, 0.99), (2, 0.99), (1, 0.8)])
def test_the_averaged_net_labels_them(predicted: int, confidence: float) -> None:
    config = PLAIN.replace(
        consistency=1.0, consistency_threshold=0.95, human_share=0.125, weight_average=0.99
    )
    data = training_set([0], [-1] * 30)
    average = silence(tiny_net(config, n_classes=3))
    with torch.no_grad():
        last_layer(average).bias[predicted] = math.log(2 * confidence / (1 - confidence))
    bias = bias_after_one_step(config, data, silence(tiny_net(config, n_classes=3)), average)
    assert int(bias.argmax()) == (predicted if confidence > 0.95 else 0)


@pytest.mark.parametrize(("confidence", "learned"), [(0.99, 2), (0.9, 0)])
def test_the_teachers_predictions_can_be_corrected(confidence: float, learned: int) -> None:
    """The averaged net predicts class 1; the correction makes it class 2."""
    config = PLAIN.replace(
        consistency=1.0, consistency_threshold=0.95, human_share=0.125, weight_average=0.99
    )
    calls = []

    def teacher_correction(rows: Tensor, p: Tensor) -> Tensor:
        calls.append((rows, p))
        rest = (1 - confidence) / 2
        return torch.tensor([rest, rest, confidence]).expand(len(rows), 3)

    data = replace(training_set([0], [-1] * 30), teacher_correction=teacher_correction)
    average = silence(tiny_net(config, n_classes=3))
    with torch.no_grad():
        last_layer(average).bias[1] = 9.0
    bias = bias_after_one_step(config, data, silence(tiny_net(config, n_classes=3)), average)
    assert int(bias.argmax()) == learned
    rows, predicted = calls[0]
    assert set(rows.tolist()) < set(range(1, 31))
    assert predicted.argmax(dim=1).tolist() == [1] * len(rows)


def test_class_weights_balance_unequal_counts() -> None:
    data = training_set([0] * 6 + [1] * 2)
    for weighting, moved in [(ClassWeighting.NONE, True), (ClassWeighting.BALANCED, False)]:
        config = PLAIN.replace(class_weights=weighting)
        bias = bias_after_one_step(config, data, silence(tiny_net(config)))
        assert (abs(float(bias[0] - bias[1])) > 1e-3) == moved


def test_the_first_step_follows_the_weighted_gradient() -> None:
    weights = [0.5, 0.25, 0.0, 0.0]
    data = training_set([0] * 4, [1] * 4, weights=weights)
    config = PLAIN.replace(human_share=0.0)
    bias = bias_after_one_step(config, data, silence(tiny_net(config)))
    gradient = (4 * (0.5 - 1) + sum(weights) * 0.5) / 8
    with_nesterov = 1 + 0.9
    assert float(bias[0]) == pytest.approx(-0.05 * with_nesterov * gradient, rel=1e-4)
    assert float(bias[1]) == pytest.approx(0.05 * with_nesterov * gradient, rel=1e-4)


def test_pseudo_labels_of_weight_zero_have_no_effect() -> None:
    truth = [0, 1] * 8
    ends = [
        trained(PLAIN, training_set([0, 1] * 4, pseudo, truth=truth, weights=[0.0] * 8))
        for pseudo in ([0] * 8, [1] * 8)
    ]
    assert same_weights(*ends)
    heavy = [
        trained(PLAIN, training_set([0, 1] * 4, pseudo, truth=truth))
        for pseudo in ([0] * 8, [1] * 8)
    ]
    assert not same_weights(*heavy)


def test_the_entropy_penalty_ends_in_flatter_outputs_and_not_in_more_noise() -> None:
    data = training_set([0, 1] * 8)
    images = data.pixels(data.human_rows)
    entropies, noises = [], []
    for beta in (0.0, 1.0):
        config = PLAIN.replace(entropy_penalty=beta, learning_rate=0.002, noise_samples=8)
        net = silence(tiny_net(config))
        Trainer(net, data, config, steps=25, seed=0).run()
        with torch.no_grad():
            outputs = net(net.standardize(images))
        log_p = torch.log_softmax(outputs[:, :-1], dim=1)
        entropies.append(float(-(log_p.exp() * log_p).sum(dim=1).mean()))
        noises.append(float(outputs[:, -1].exp().mean()))
    assert entropies[0] + 0.1 < entropies[1]
    assert noises[1] <= 1.05 * noises[0]


def test_a_net_whose_log_variance_left_its_range_comes_back() -> None:
    data = training_set([0, 1] * 8)
    config = PLAIN.replace(learning_rate=0.02, noise_samples=8)
    net = silence(tiny_net(config))
    with torch.no_grad():
        last_layer(net).bias[-1].fill_(8.0)
    Trainer(net, data, config, steps=150, seed=0).run()
    with torch.no_grad():
        s = net(net.standardize(data.pixels(data.human_rows)))[:, -1]
    assert float(s.max()) < 6


def test_learned_dropout_probabilities_move_and_fixed_ones_do_not() -> None:
    data = training_set([0, 1] * 6)
    for dropout in Dropout:
        config = PLAIN.replace(dropout=dropout, dropout_p=0.3)
        net = tiny_net(config)
        Trainer(net, data, config, steps=5, seed=0).run()
        moved = [abs(float(layer.p.detach()) - 0.3) > 1e-4 for layer in net.dropouts()]
        assert moved == [dropout is Dropout.CONCRETE] * 2


def test_the_averaged_weights_are_what_is_kept() -> None:
    config = PLAIN.replace(weight_average=0.9)
    data = training_set([0, 1] * 6)
    net = tiny_net(config)
    snapshots = Snapshots({})
    Trainer(net, data, config, steps=3, seed=0).run(snapshots)
    last = snapshots.at[3]
    for name, value in weights_of(net).items():
        assert torch.equal(value, last[f"average/{name}"])
    assert not torch.equal(last["net/tail.out.weight"], last["average/tail.out.weight"])


@dataclass
class TuneLosses:
    """Evaluates the tune loss after each step, and saves nothing."""

    trainer: Trainer
    seen: dict[int, float] = field(default_factory=dict)

    def load(self) -> None:
        return None

    def due(self, step: int) -> bool:
        self.seen[step] = self.trainer.tune_loss()
        return False

    def save(self, step: int, packed: object) -> None:
        raise AssertionError


@pytest.mark.parametrize("weight_average", [0.0, 0.5])
def test_early_stop_keeps_the_best_weights_and_ends_when_patience_is_over(
    weight_average: float,
) -> None:
    config = PLAIN.replace(early_stop=3, weight_average=weight_average)
    data = training_set([0, 1] * 6, tune=[1, 0] * 4, truth=[0, 1] * 10)
    trainer = Trainer(tiny_net(config), data, config, steps=20, seed=0)
    losses = TuneLosses(trainer)
    report = trainer.run(losses)
    best = min(losses.seen, key=losses.seen.__getitem__)
    assert report.stopped_early
    assert report.steps == best + 3 < 20
    assert report.tune_loss == losses.seen[best]


def test_a_run_that_keeps_improving_is_not_stopped() -> None:
    config = PLAIN.replace(early_stop=20)
    data = training_set([0, 1] * 6, tune=[0, 1] * 4)
    report = Trainer(tiny_net(config), data, config, steps=20, seed=0).run()
    assert (report.steps, report.stopped_early) == (20, False)


def test_early_stop_without_tune_labels_never_stops() -> None:
    config = PLAIN.replace(early_stop=1)
    data = training_set([0, 1] * 6)
    report = Trainer(tiny_net(config), data, config, steps=10, seed=0).run()
    assert (report.steps, report.stopped_early) == (10, False)


def test_each_step_has_randomness_of_its_own() -> None:
    @dataclass
    class Seeds:
        trainer: Trainer
        seen: list[int] = field(default_factory=list)

        def load(self) -> None:
            return None

        def due(self, step: int) -> bool:
            generators = {layer.generator for layer in self.trainer.net.dropouts()}
            self.seen += [g.initial_seed() for g in generators if g is not None]
            return False

        def save(self, step: int, packed: object) -> None:
            raise AssertionError

    trainer = Trainer(tiny_net(LIVELY), training_set([0, 1] * 4), LIVELY, steps=5, seed=0)
    seeds = Seeds(trainer)
    trainer.run(seeds)
    assert len(set(seeds.seen)) == len(seeds.seen) == 5
