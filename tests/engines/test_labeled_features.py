from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.engines.storage import load_reference, reference_path, save_reference
from surelabel.inference.sampling import predict, stage_features_of
from surelabel.models.nets import build_net
from surelabel.selection.out_of_distribution import ReferenceFeatures


@pytest.mark.parametrize("kind", [Net.COMPACT, Net.DENSENET])
def test_stage_features_depend_on_one_image_alone_and_are_what_distances_get(kind: Net) -> None:
    config = Config(net=kind, width=0.25)
    generator = torch.Generator().manual_seed(0)
    net = build_net(config, size=16, channels=1, n_classes=3, k=4, generator=generator)
    images = torch.randint(0, 255, (6, 1, 16, 16), dtype=torch.uint8, generator=generator)
    rows = torch.arange(6)
    features, widths = stage_features_of(net, lambda at: images[at], rows)
    assert features.shape == (6, sum(widths))
    alone, _ = stage_features_of(net, lambda at: images[at], rows[2:3])
    assert alone == pytest.approx(features[2:3], rel=1e-4, abs=1e-4)
    ids = np.array([str(i) for i in range(6)])
    prediction = predict(
        [net, net],
        lambda at: images[at],
        rows,
        ids,
        mc_samples=2,
        seeds=[1, 2],
        distances=[lambda x: x.sum(axis=1), lambda x: 3 * x.sum(axis=1)],
    )
    assert prediction.distance == pytest.approx(2 * features.sum(axis=1), rel=1e-4)


def test_the_last_stage_is_the_stems_output() -> None:
    generator = torch.Generator().manual_seed(0)
    net = build_net(Config(width=0.5), size=28, channels=3, n_classes=3, k=0, generator=generator)
    images = torch.randn(4, 3, 28, 28, generator=generator)
    net.eval()
    features, stages = net.features_by_stage(images)
    assert torch.equal(features, net.stem(images))
    assert torch.equal(stages[-1], features)
    assert len(stages) == 3


def test_neighbors_come_back_from_disk_and_older_rounds_have_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    known = ReferenceFeatures(rng.normal(0, 1, (30, 5)), (2, 3))
    path = reference_path(tmp_path / "weights-1.safetensors")
    assert path.name == "reference-1.safetensors"
    assert load_reference(path) is None
    save_reference(path, known)
    again = load_reference(path)
    assert again is not None
    points = rng.normal(0, 1, (7, 5))
    assert again.distance(points) == pytest.approx(known.distance(points))
