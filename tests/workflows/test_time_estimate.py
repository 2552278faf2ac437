"""How long photographs take is told before they are decoded, and nothing is done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.items import Source
from surelabel.dataset.sources import find_images
from surelabel.engines import first_look
from surelabel.messages.run import event_sentence
from surelabel.models.efficientnet_lite import LITE0, EfficientNetLite
from surelabel.selftraining.events import Event, TimeEstimate
from surelabel.types import no_progress
from surelabel.workflows import time_estimate
from surelabel.workflows.model_inputs import decoding_of, open_features
from surelabel.workflows.time_estimate import estimate_time

N = 60
SIDE = 32


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "FEWEST_IMAGES", 40)
    monkeypatch.setattr(first_look, "_SECONDS", 0.01)
    monkeypatch.setattr(time_estimate, "_SAMPLE", 24)
    monkeypatch.setattr(time_estimate, "_SAMPLE_PER_CORE", 0)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    for i in range(N):
        pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{i}.jpg")
    return find_images(photos, tmp_path / "cache")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    torch.manual_seed(0)
    torch.save(EfficientNetLite(LITE0).state_dict(), tmp_path / "weights.pth")
    return Config(
        net="efficientnet-lite0",
        net_weights=str(tmp_path / "weights.pth"),
        image_size=SIDE,
        cache=str(tmp_path / "cache"),
    )


def told(config: Config, source: Source) -> list[Event]:
    events: list[Event] = []
    assert estimate_time(config, source, no_progress, events.append).keys == source.keys
    return events


def pixel_store(config: Config) -> PixelStore:
    decoding = decoding_of(config)
    return PixelStore(Path(config.cache), SIDE, 3, decoding.resize)


def test_time_and_disk_are_told_and_the_sample_is_kept(source: Source, config: Config) -> None:
    (estimate,) = told(config, source)
    assert isinstance(estimate, TimeEstimate)
    assert estimate.n_images == N
    assert 0 < estimate.reading_seconds < 60
    assert 0 < estimate.features_seconds < 600
    catalog = unlabeled_catalog(source, decoding=decoding_of(config), cache=Path(config.cache))
    features = open_features(config, catalog, pixel_store(config))
    assert estimate.n_bytes == N * (SIDE * SIDE * 3 + features.store.row_bytes)
    assert 0 < len(features.missing(catalog.ids)) < N


def test_images_that_are_known_are_not_timed_again(source: Source, config: Config) -> None:
    half = replace(source, keys=source.keys[:30], files=source.files[:30])
    unlabeled_catalog(half, decoding=decoding_of(config), cache=Path(config.cache))
    assert told(config, source) == []


def test_a_damaged_sample_and_a_net_from_scratch_do_no_harm(source: Source, config: Config) -> None:
    for file in source.files:
        content = Path(file).read_bytes()
        Path(file).write_bytes(content[: len(content) // 2])
    (estimate,) = told(config, source)
    assert isinstance(estimate, TimeEstimate)
    assert estimate.features_seconds == 0
    assert told(Config(net="compact", cache=config.cache), source) == []


def test_the_sentence_names_images_time_and_disk() -> None:
    text = event_sentence(TimeEstimate(10_600, 60.0, 540.0, 3_300_000_000))
    for fact in ("10,600", "10 min", "60 s", "9 min", "3.3 GB"):
        assert fact in text
