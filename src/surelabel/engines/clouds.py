"""Where the classes lie in what a net sees: fitted after training, kept beside its weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from surelabel.accept import Clouds, fit_clouds
from surelabel.engines.weights import read_tensors, write_tensors
from surelabel.infer import appearance_of
from surelabel.learn import TrainingSet
from surelabel.nets import BayesianNet


def clouds_path(weights: Path) -> Path:
    """The file beside a net's weights that holds its clouds."""
    return weights.with_name(weights.name.replace("weights", "clouds"))


def fit(net: BayesianNet, data: TrainingSet) -> Clouds:
    """The clouds of the human labels that ``net`` was trained on."""
    looks = appearance_of(net, data.pixels, data.human_rows)
    labels = data.human_labels.numpy().astype(np.int64)
    return fit_clouds(looks, labels, net.n_classes)


def save(path: Path, clouds: Clouds) -> None:
    """Write atomically."""
    tensors = {"means": clouds.means, "whitening": clouds.whitening}
    write_tensors(path, {name: torch.from_numpy(value) for name, value in tensors.items()}, {})


def load(path: Path) -> Clouds | None:
    """The clouds in ``path``; None for a round of a version that had none."""
    if not path.exists():
        return None
    tensors, _ = read_tensors(path)
    return Clouds(tensors["means"].numpy(), tensors["whitening"].numpy())
