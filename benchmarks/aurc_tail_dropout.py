"""How much worse a small Bayesian tail ranks errors than the same net with dropout throughout.

Both nets start from the same weights and are trained in the same way on the same labels, without
the pool. Then both predict the same images with T samples: how well do their scores rank the
errors, and what do the samples cost?
"""

from __future__ import annotations

import numpy as np
import torch

from clock import best_times
from digits import ABSENT, Digits, have_digits, read_digits
from dropout_throughout import build_throughout
from selective import figures, mean_and_spread
from settings import Settings
from surelabel.config.settings import Config
from surelabel.inference.measures import measure
from surelabel.inference.sampling import predict
from surelabel.models.bayesian import BayesianNet
from surelabel.models.nets import build_net
from surelabel.training.trainer import Trainer, TrainingSet
from surelabel.types import JsonObject, Prediction, derive_seed

_SHAPE = {"size": 28, "channels": 1, "n_classes": 10}
_FIGURES = ("aurc", "augrc", "error")


def main(settings: Settings) -> JsonObject:
    if not have_digits():
        return ABSENT
    n_images = settings.size(settings.images, 20_000, 500)
    steps = settings.size(settings.steps, 1500, 3)
    n_seeds = min(settings.n_seeds, 2) if settings.tiny else settings.n_seeds
    config = Config(consistency=0.0)
    by_net: dict[str, list[dict[str, float]]] = {"tail": [], "throughout": []}
    p: dict[str, list[float]] = {}
    difference = 0.0
    for seed in range(settings.seed, settings.seed + n_seeds):
        digits = read_digits(settings, seed=seed, n_pool=n_images)
        nets = _new_nets(config, digits, seed)
        difference = max(difference, _difference(nets, digits))
        for name, net in nets.items():
            Trainer(net, _training_set(digits), config, steps=steps, seed=seed).run()
            prediction = _predict(net, digits, config.mc_samples, seed)
            wrong = prediction.guess != digits.truth[digits.pool]
            by_net[name].append(figures(measure(prediction, config.score), wrong))
            p[name] = [round(float(layer.p.detach()), 3) for layer in net.dropouts()]
    costs = {name: _cost(net, digits, config.mc_samples, settings) for name, net in nets.items()}
    return {
        "labels_per_class": settings.labels,
        "pool": len(digits.pool),
        "steps": steps,
        "seeds": [settings.seed, settings.seed + n_seeds - 1],
        **{
            f"{figure}_{name}": mean_and_spread([each[figure] for each in rows])
            for figure in _FIGURES
            for name, rows in by_net.items()
        },
        "aurc_ratio": mean_and_spread(
            [a["aurc"] / b["aurc"] for a, b in zip(*by_net.values(), strict=True) if b["aurc"]]
        ),
        **{f"cost_ratio_{name}": cost for name, cost in costs.items()},
        "dropout_p_last_seed": p,
        "difference_without_dropout": difference,
    }


def _new_nets(config: Config, digits: Digits, seed: int) -> dict[str, BayesianNet]:
    """Both nets, with the same new weights."""

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(seed, "weights"))

    nets = {
        "tail": build_net(config, **_SHAPE, k=0, generator=generator()),
        "throughout": build_throughout(config, **_SHAPE, generator=generator()),
    }
    for net in nets.values():
        net.pixel_mean = torch.tensor([float(digits.images.mean())])
        net.pixel_std = torch.tensor([float(digits.images.std())])
    return nets


def _difference(nets: dict[str, BayesianNet], digits: Digits) -> float:
    """The largest difference of the outputs before training, without dropout: only rounding."""
    images = torch.from_numpy(digits.images[:64][:, None])
    with torch.no_grad():
        a, b = (net.eval()(net.standardize(images)) for net in nets.values())
    return float((a - b).abs().max())


def _training_set(digits: Digits) -> TrainingSet:
    pixels = torch.from_numpy(digits.images[:, None])
    none = torch.empty(0, dtype=torch.int64)
    return TrainingSet(
        pixels=pixels.__getitem__,
        human_rows=torch.from_numpy(digits.train),
        human_labels=torch.from_numpy(digits.truth[digits.train]),
        pseudo_rows=none,
        pseudo_labels=none,
        pseudo_weights=torch.empty(0),
        tune_rows=none,
        tune_labels=none,
    )


def _predict(net: BayesianNet, digits: Digits, mc_samples: int, seed: int) -> Prediction:
    rows = torch.from_numpy(digits.pool)
    ids = digits.pool.astype(np.str_)
    pixels = torch.from_numpy(digits.images[:, None]).__getitem__
    return predict([net], pixels, rows, ids, mc_samples=mc_samples, seeds=[seed])


def _cost(net: BayesianNet, digits: Digits, mc_samples: int, settings: Settings) -> float:
    """The time of T samples relative to one deterministic pass."""
    few = Digits(digits.images, digits.truth, digits.train, digits.tune, digits.pool[:2048])
    times = best_times(
        {
            "one": lambda: _predict(net, few, 1, 0),
            "samples": lambda: _predict(net, few, mc_samples, 0),
        },
        repeats=1 if settings.tiny else 5,
    )
    return round(times["samples"] / times["one"], 2)
