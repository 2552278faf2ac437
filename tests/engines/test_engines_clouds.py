from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.accept import fit_clouds
from surelabel.choices import Net
from surelabel.config import Config
from surelabel.engines import clouds
from surelabel.infer import appearance_of, predict
from surelabel.nets import build_net


@pytest.mark.parametrize("kind", [Net.COMPACT, Net.DENSENET])
def test_an_appearance_does_not_depend_on_neighbors_and_is_what_distances_get(kind: Net) -> None:
    config = Config(net=kind, width=0.25)
    generator = torch.Generator().manual_seed(0)
    net = build_net(config, size=16, channels=1, n_classes=3, k=4, generator=generator)
    images = torch.randint(0, 255, (6, 1, 16, 16), dtype=torch.uint8, generator=generator)
    rows = torch.arange(6)
    looks = appearance_of(net, lambda at: images[at], rows)
    assert looks.shape[0] == 6
    assert appearance_of(net, lambda at: images[at], rows[2:3]) == pytest.approx(
        looks[2:3], rel=1e-4, abs=1e-4
    )
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


def test_clouds_come_back_from_disk_and_older_rounds_have_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fitted = fit_clouds(rng.normal(0, 1, (30, 5)), np.arange(30) % 2, 3)
    path = clouds.clouds_path(tmp_path / "weights-1.safetensors")
    assert path.name == "clouds-1.safetensors"
    assert clouds.load(path) is None
    clouds.save(path, fitted)
    again = clouds.load(path)
    assert again is not None
    points = rng.normal(0, 1, (7, 5))
    assert again.distance(points) == pytest.approx(fitted.distance(points))
