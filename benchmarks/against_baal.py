"""Thirty Monte Carlo samples of the same net on the same images: ours, and baal's.

baal runs the whole net thirty times. Both drop the same shares in the same places; ours draws one
mask a sample, baal one a sample and image. baal gets the batch size that suits it best, images
that are decoded, standardized and in memory, and is timed without reducing its samples; ours
starts from bytes and ends with all measures. Needs ``surelabel[bench]``.
"""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clock import best_times
from public_packages import import_public
from settings import Settings
from surelabel.config.choices import Dropout
from surelabel.config.settings import Config
from surelabel.inference.sampling import predict
from surelabel.models.bayesian import BayesianNet
from surelabel.models.concrete_dropout import ConcreteDropout
from surelabel.models.nets import build_net
from surelabel.types import FloatArray

_T = 30
_BATCHES = (8, 32, 128, 512)
Predict = Callable[[], Any]


def main(settings: Settings) -> dict[str, Any]:
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")  # tqdm asks for a notebook
            import_public("baal")
    except ImportError:
        return {"skipped": "baal is not installed: pip install -c constraints.txt '.[bench]'"}
    n = settings.size(settings.images, 4096, 64)
    generator = torch.Generator().manual_seed(settings.seed)
    net = _net(generator)
    images = torch.randint(0, 256, (n, 1, 28, 28), generator=generator, dtype=torch.uint8)
    works = {"surelabel": _ours(net, images, seed=0)}
    n_trial = min(n, 512)
    batches = (16, 32) if settings.tiny else _BATCHES
    chosen = {}
    for name, ways in _WAYS.items():
        trials = {b: _theirs(net, images[:n_trial], b, **ways) for b in batches}
        seconds = best_times({str(b): work for b, work in trials.items()}, repeats=2)
        chosen[name] = int(min(seconds, key=lambda b: seconds[b]))
        works[name] = _theirs(net, images, chosen[name], **ways)
    times = best_times(works, repeats=1 if settings.tiny else 3)
    return {
        "images": n,
        "mc_samples": _T,
        "threads": torch.get_num_threads(),
        "seconds": {name: round(seconds, 3) for name, seconds in times.items()},
        "batch_size": chosen,
        "ratio": round(min(times["baal"], times["baal_loop"]) / times["surelabel"], 2),
        "ratio_to_cache": round(times["baal_cache"] / times["surelabel"], 2),
        **_differences(net, images),
    }


_WAYS: dict[str, dict[str, bool]] = {
    "baal": {"replicate": True, "cache": False},
    "baal_loop": {"replicate": False, "cache": False},
    "baal_cache": {"replicate": False, "cache": True},
}
"""Its default; one pass a sample; and that with its cache of each layer's last output."""


def _net(generator: torch.Generator) -> BayesianNet:
    """The compact net with hard masks of a fixed probability, as baal has them."""
    config = Config(dropout=Dropout.FIXED)
    net = build_net(config, size=28, channels=1, n_classes=10, k=0, generator=generator).eval()
    net.pixel_mean, net.pixel_std = torch.tensor([127.5]), torch.tensor([73.9])
    return net


def _ours(net: BayesianNet, images: Tensor, seed: int, n_samples: int = _T) -> Predict:
    rows, ids = torch.arange(len(images)), np.arange(len(images)).astype(np.str_)
    return lambda: predict([net], images.__getitem__, rows, ids, mc_samples=n_samples, seeds=[seed])


def _theirs(
    net: BayesianNet,
    images: Tensor,
    batch_size: int,
    n_samples: int = _T,
    *,
    replicate: bool,
    cache: bool,
) -> Predict:
    """``ModelWrapper.predict_on_dataset`` on a copy of the net with baal's dropout patched in."""
    from baal.bayesian.caching_utils import MCCachingModule
    from baal.bayesian.dropout import MCDropoutModule
    from baal.modelwrapper import ModelWrapper, TrainingArgs

    plain = copy.deepcopy(nn.Sequential(net.stem, net.tail))
    _with_torch_dropout(plain)
    model = MCDropoutModule(plain)
    if cache:
        model = MCCachingModule(model)
    args = TrainingArgs(batch_size=batch_size, workers=0, replicate_in_memory=replicate)
    wrapper = ModelWrapper(model, args)
    data = torch.utils.data.TensorDataset(net.standardize(images))

    def work() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return wrapper.predict_on_dataset(data, iterations=n_samples, verbose=False)

    return work


def _with_torch_dropout(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, ConcreteDropout):
            setattr(module, name, nn.Dropout(float(child.p)))
        else:
            _with_torch_dropout(child)


def _differences(net: BayesianNet, images: Tensor) -> dict[str, float]:
    """Whether both compute the same: outputs with dropout off; mean probabilities of many samples.

    The latter differ by chance, and so do two draws of our own.
    """
    few, ways, many = images[:32], _WAYS["baal"], 30 * _T
    ours, again = (_ours(net, few, seed, many)().probabilities for seed in (0, 1))
    logits = torch.from_numpy(_theirs(net, few, 8, many, **ways)()[:, :-1])
    theirs: FloatArray = logits.softmax(dim=1).mean(dim=-1).numpy()
    silent = copy.deepcopy(net)
    for layer in silent.dropouts():
        layer.off = True
        layer.logit_p.data.fill_(-torch.inf)
    with torch.no_grad():
        plain = silent(silent.standardize(few)).numpy()
    once = _theirs(silent, few, 8, 1, **ways)()[..., 0]
    return {
        "difference_without_dropout": float(np.abs(plain - once).max()),
        "largest_difference": round(float(np.abs(ours - theirs).max()), 4),
        "largest_difference_of_our_own_draws": round(float(np.abs(ours - again).max()), 4),
        "difference_samples": many,
    }
