"""Small color images: a trial on labels that were left out chooses how they are labeled."""

from __future__ import annotations

import numpy as np
import pytest

from surelabel.config.settings import Config
from surelabel.dataset.build import labeled_source
from surelabel.dataset.sources import find_images
from surelabel.models.backbones import photos_installed
from surelabel.types import IntArray
from surelabel.workflows.net_trial import is_color, try_features

SIDE = 24


def glyphs(n: int, n_classes: int = 3) -> tuple[np.ndarray, IntArray]:
    """Bars in random colors whose direction is the class."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % n_classes
    down, across = np.mgrid[:SIDE, :SIDE] / SIDE
    waves = (down, across, down + across)
    images = np.stack(
        [
            128
            + 100 * np.sin(40 * waves[k] + rng.uniform(0, 6))[..., None] * rng.uniform(0.3, 1, 3)
            for k in labels
        ]
    )
    return images.clip(0, 255).astype(np.uint8), labels


def test_gray_images_are_not_tried() -> None:
    assert not is_color(find_images(np.zeros((3, 8, 8), dtype=np.uint8)))
    assert is_color(find_images(np.zeros((3, 8, 8, 3), dtype=np.uint8)))


@pytest.mark.skipif(not photos_installed(), reason="surelabel[photos] is not installed")
def test_the_trial_measures_both_ways_on_unseen_labels(tmp_path: object) -> None:
    images, labels = glyphs(60)
    config = Config(cache=str(tmp_path), steps=60, threads=1, mc_samples=2)
    source, rows = labeled_source(images, labels, seed=0)
    trial = try_features(config, source, rows)
    assert trial is not None
    assert trial.n_labels == 60
    assert 0 < trial.features < np.log(3)  # better than a guess without looking
    assert trial.compact > 0


def test_few_labels_and_certify_labels_are_no_evidence(tmp_path: object) -> None:
    images, labels = glyphs(60)
    config = Config(cache=str(tmp_path))
    partly = np.where(np.arange(60) < 30, labels, -1)
    assert try_features(config, *labeled_source(images, partly, seed=0)) is None
    hidden = labeled_source(images, labels, seed=0, certify_share=0.5)
    assert try_features(config, *hidden) is None
