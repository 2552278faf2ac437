from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.engines.members import load_neighbors, neighbors_path, save_neighbors
from surelabel.inference.sampling import appearance_of, predict
from surelabel.models.build import build_net
from surelabel.selection.out_of_distribution import Neighbors


@pytest.mark.parametrize("kind", [Net.COMPACT, Net.DENSENET])
def test_an_appearance_does_not_depend_on_neighbors_and_is_what_distances_get(kind: Net) -> None:
    config = Config(net=kind, width=0.25)
    generator = torch.Generator().manual_seed(0)
    net = build_net(config, size=16, channels=1, n_classes=3, k=4, generator=generator)
    images = torch.randint(0, 255, (6, 1, 16, 16), dtype=torch.uint8, generator=generator)
    rows = torch.arange(6)
    looks, stages = appearance_of(net, lambda at: images[at], rows)
    assert looks.shape == (6, sum(stages))
    alone, _ = appearance_of(net, lambda at: images[at], rows[2:3])
    assert alone == pytest.approx(looks[2:3], rel=1e-4, abs=1e-4)
    ids = np.array([str(i) for i in range(6)])
    said = predict(
        [net, net],
        lambda at: images[at],
        rows,
        ids,
        mc_samples=2,
        seeds=[1, 2],
        distances=[lambda x: x.sum(axis=1), lambda x: 3 * x.sum(axis=1)],
    )
    assert said.distance == pytest.approx(2 * looks.sum(axis=1), rel=1e-4)


def test_a_look_gives_the_features_that_the_stem_gives() -> None:
    generator = torch.Generator().manual_seed(0)
    net = build_net(Config(width=0.5), size=28, channels=3, n_classes=3, k=0, generator=generator)
    images = torch.randn(4, 3, 28, 28, generator=generator)
    net.eval()
    features, looks = net.look(images)
    assert torch.equal(features, net.stem(images))
    assert torch.equal(looks[-1], features)
    assert len(looks) == 3


def test_neighbors_come_back_from_disk_and_older_rounds_have_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    known = Neighbors(rng.normal(0, 1, (30, 5)), (2, 3))
    path = neighbors_path(tmp_path / "weights-1.safetensors")
    assert path.name == "neighbors-1.safetensors"
    assert load_neighbors(path) is None
    save_neighbors(path, known)
    again = load_neighbors(path)
    assert again is not None
    points = rng.normal(0, 1, (7, 5))
    assert again.distance(points) == pytest.approx(known.distance(points))
