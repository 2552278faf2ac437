from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import safetensors.torch
import torch
from torch import Tensor
from training_problems import PLAIN, same_weights, tiny_net, training_set, weights_of

from surelabel.config.choices import Dropout, Optimizer, Schedule
from surelabel.config.settings import Config
from surelabel.errors import RunDamagedError
from surelabel.training.checkpoint import load_state
from surelabel.training.trainer import FitReport, Trainer

BASE = PLAIN.replace(
    augment=True,
    dropout=Dropout.CONCRETE,
    dropout_p=0.2,
    noise_samples=2,
    consistency=1.0,
    consistency_threshold=0.6,
    schedule=Schedule.ONE_CYCLE,
    weight_average=0.9,
)


class KilledError(Exception):
    """The machine went away."""


@dataclass
class OneFile:
    """The bytes of a safetensors file; ``kill_at`` ends the program right after that step's."""

    kill_at: int = 0
    content: bytes = b""
    step: int = 0

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        return (self.step, safetensors.torch.load(self.content)) if self.content else None

    def due(self, step: int) -> bool:
        return step == self.kill_at

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        self.step, self.content = step, safetensors.torch.save(dict(packed))
        raise KilledError


def run(
    config: Config, steps: int, checkpoints: OneFile | None = None, net_seed: int = 0
) -> tuple[FitReport, dict[str, Tensor]]:
    data = training_set(
        [0, 1] * 4, [0, 1] * 2 + [-1] * 12, [1, 0] * 3, truth=[0, 1] * 15, weights=[0.5] * 16
    )
    net = tiny_net(config, seed=net_seed)
    report = Trainer(net, data, config, steps=steps, seed=3).run(checkpoints)
    return report, weights_of(net)


CASES = {
    "sgd": BASE,
    "adam": BASE.replace(optimizer=Optimizer.ADAM, learning_rate=0.01),
    "early stop": BASE.replace(early_stop=2, weight_average=0.3),
    "early stop without average": BASE.replace(early_stop=4, weight_average=0.0),
    "no average": BASE.replace(weight_average=0.0),
    "fixed dropout": BASE.replace(dropout=Dropout.FIXED),
}


@pytest.mark.parametrize("config", CASES.values(), ids=CASES.keys())
def test_a_run_that_is_killed_half_way_ends_with_the_same_weights_to_the_last_bit(
    config: Config,
) -> None:
    whole_report, whole = run(config, 10)
    half = OneFile(kill_at=min(5, whole_report.steps - 1))
    with pytest.raises(KilledError):
        run(config, 10, half)
    resumed_report, resumed = run(config, 10, half, net_seed=99)
    assert same_weights(resumed, whole)
    assert resumed_report == whole_report


def test_a_run_with_early_stop_remembers_the_best_weights_and_its_patience() -> None:
    config = CASES["early stop"]
    whole_report, whole = run(config, 20)
    assert whole_report.stopped_early
    last = OneFile(kill_at=whole_report.steps - 1)
    with pytest.raises(KilledError):
        run(config, 20, last)
    resumed_report, resumed = run(config, 20, last, net_seed=99)
    assert resumed_report == whole_report
    assert same_weights(resumed, whole)


def test_a_run_that_is_killed_twice_ends_the_same() -> None:
    _, whole = run(BASE, 6)
    file = OneFile(kill_at=2)
    with pytest.raises(KilledError):
        run(BASE, 6, file)
    file.kill_at = 5
    with pytest.raises(KilledError):
        run(BASE, 6, file, net_seed=1)
    _, resumed = run(BASE, 6, file, net_seed=2)
    assert same_weights(resumed, whole)


def test_a_run_that_is_killed_after_its_last_step_has_nothing_left_to_do() -> None:
    report, whole = run(BASE, 3)
    file = OneFile(kill_at=3)
    with pytest.raises(KilledError):
        run(BASE, 3, file)
    again, resumed = run(BASE, 3, file, net_seed=1)
    assert same_weights(resumed, whole)
    assert again == report


def test_saving_does_not_change_the_run() -> None:
    @dataclass
    class Quiet(OneFile):
        def due(self, step: int) -> bool:
            return True

        def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
            safetensors.torch.save(dict(packed))

    assert same_weights(run(BASE, 5, Quiet())[1], run(BASE, 5)[1])


def test_weights_of_another_net_are_refused_with_a_sentence() -> None:
    narrow, wide = tiny_net(PLAIN), tiny_net(PLAIN, n_classes=5)
    with pytest.raises(RunDamagedError, match="do not fit the network"):
        load_state(narrow, weights_of(wide))
    with pytest.raises(RunDamagedError, match="do not fit the network"):
        load_state(narrow, {"surprise": torch.zeros(1)})
