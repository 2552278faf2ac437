"""What a round takes over from the one before: weights to start from, or its nets altogether.

A round whose nets are clearly worse by held-out labels is rolled back to the nets before it. The
tail detail may also start from the layers of another run.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.engines.ensemble import Ensemble, load_ensemble
from surelabel.engines.inputs import Features, refuse_other_backbone
from surelabel.engines.storage import (
    load_net,
    load_reference,
    reference_path,
    save_reference,
    weights_path,
)
from surelabel.errors import DivergedError, RunError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.models.bayesian import BayesianNet
from surelabel.models.growing_densenet import GrowingDenseNet, widen
from surelabel.models.nets import CompactNet
from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray, Prediction

_WARM_RATE = 0.4
"""Share of the learning rate for a net that starts from the weights of the round before."""
_ROLLED_BACK = "rolled-back"
"""A file that marks a round as rolled back."""


def warm_start(net: BayesianNet, config: Config, round_inputs: RoundInputs, member: int) -> float:
    """Start ``net`` from the round before, where asked for; returns the share of the rate.

    A net that has learned before would forget at the full learning rate.
    """
    grows = isinstance(net, GrowingDenseNet) and config.growth_warm
    continues = isinstance(net, CompactNet) and config.warm_start
    folder = round_inputs.previous_round
    if not (grows or continues) or folder is None or round_inputs.problem.cross_fit:
        return 1.0
    path = weights_path(folder, member)
    before = load_net(path, config)[0] if path.exists() else None
    if before is None or before.n_classes != net.n_classes:
        return 1.0
    if isinstance(net, GrowingDenseNet) and isinstance(before, GrowingDenseNet):
        widen(before, net)
        return 1.0
    net.load_state_dict(before.state_dict())
    return _WARM_RATE


def start_from_run(net: BayesianNet, features: Features, config: Config, member: int) -> None:
    """Give ``net`` the layers that a net of another run has learned; its head stays new.

    ``config.start_from`` is the folder of that run's last round.
    """
    files = sorted(Path(config.start_from).glob("weights-*.safetensors"))
    if not files:
        raise RunError(
            f"{config.start_from} holds no weights any more, from which training is to start: put "
            "them back, or start a new run without start_from."
        )
    path = files[member % len(files)]
    before, about = load_net(path, config)
    refuse_other_backbone(path, about, features, config)
    net.stem.load_state_dict(before.stem.state_dict())


def roll_back_if_worse(new: Ensemble, round_inputs: RoundInputs, work_folder: Path) -> Ensemble:
    """The nets of the round before, where held-out labels are clearly more likely under them."""
    folder, number, n = round_inputs.previous_round, round_inputs.number, len(new.members)
    before = [weights_path(folder, k) for k in range(n)] if folder is not None else []
    if not before or not all(path.exists() for path in before):
        return new
    mark = work_folder / _ROLLED_BACK
    if not mark.exists():
        earlier = load_ensemble(before, number, new.config, new.images)
        problem = round_inputs.problem
        losses = [_held_out_losses(each, problem) for each in (new, earlier)]
        if not is_worse(*losses):
            return new
        # A second attempt after a kill must not decide again with half of the nets replaced.
        atomic_write_bytes(mark, b"", parents=False)
    own = [weights_path(work_folder, k) for k in range(n)]
    for source, path in zip(before, own, strict=True):
        _copy_net(source, path)
    return load_ensemble(own, number, new.config, new.images)


def is_worse(new: FloatArray, earlier: FloatArray) -> bool:
    """Whether losses (N,) of the held-out labels under the new nets are clearly higher."""
    if not len(new) or not np.isfinite(earlier).all():
        return False
    return not np.isfinite(new).all() or is_clear_gain(new - earlier)


def losses_of(prediction: Prediction, problem: Problem) -> FloatArray:
    """(N,) -ln p of the held-out labels, at the best temperature from 1 up."""
    known = dict(zip(problem.tune_ids.tolist(), problem.tune_labels.tolist(), strict=True))
    labels = np.array([known[i] for i in prediction.ids.tolist()], dtype=np.int64)
    return losses_at_best_temperature(prediction.probabilities, labels, coolest=1.0)


def _held_out_losses(ensemble: Ensemble, problem: Problem) -> FloatArray:
    """(N,) losses of the held-out labels; infinite for nets that diverged."""
    try:
        return losses_of(ensemble.predict_held_out(problem), problem)
    except DivergedError:
        return np.full(len(problem.tune_ids), np.inf)


def _copy_net(source: Path, target: Path) -> None:
    """Copy a net and its reference features, without the outliers of its own round."""
    with atomic_path(target, parents=False) as temporary:
        shutil.copyfile(source, temporary)
    reference = load_reference(reference_path(source))
    if reference is not None:
        save_reference(reference_path(target), replace(reference, outliers=None))
