"""What is told before all features are computed; the features themselves do not change."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from photo_data import N_PHOTOS, backbone, features_of, photo_catalog
from rich.console import Console
from torch import Tensor, nn

from surelabel.cli.progress import LineReporter, LiveReporter
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.engines import first_look
from surelabel.engines.first_look import compute_features
from surelabel.engines.inputs import Features
from surelabel.models.backbones import Backbone, Layers
from surelabel.selftraining.events import Event, FeaturesStarted, FirstLook
from surelabel.types import no_progress
from surelabel.workflows.problem import build_problem


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return photo_catalog(tmp_path / "pixels", n_labeled=30)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "FEWEST_IMAGES", 20)
    monkeypatch.setattr(first_look, "_FIRST", 32)
    monkeypatch.setattr(first_look, "_SECONDS", 0.01)


def layered(net: Backbone | None = None) -> Backbone:
    net = net or backbone()
    net.layers = Layers((12,), (0,))
    return net


def told(features: Features, catalog: Catalog) -> list[Event]:
    events: list[Event] = []
    problem = build_problem(catalog, {}, 0)
    compute_features(features, problem, 0, no_progress, events.append)
    return events


def test_the_features_are_the_same_to_the_bit(catalog: Catalog, tmp_path: Path) -> None:
    looked = features_of(catalog, tmp_path / "pixels", tmp_path / "cache", layered())
    plain = features_of(catalog, tmp_path / "pixels", None, layered())
    events = told(looked, catalog)
    plain.compute()
    rows = torch.arange(len(catalog))
    assert torch.equal(looked.pixels(rows), plain.pixels(rows))
    started, look = events
    assert isinstance(started, FeaturesStarted)
    assert (started.n_images, started.n_bytes) == (N_PHOTOS, N_PHOTOS * looked.store.row_bytes)
    assert isinstance(look, FirstLook)
    assert (look.n_labels, look.n_classes, look.n_told_apart) == (30, 2, 2)
    assert look.accuracy > 0.9
    assert look.commonest == 0.5
    assert look.seconds_left > 0


def test_labels_that_say_nothing_about_the_images_are_not_told_apart(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (N_PHOTOS, 32, 32, 3), dtype=np.uint8)
    labels = np.where(np.arange(N_PHOTOS) < 30, np.arange(N_PHOTOS) % 6, -1)
    place = tmp_path / "pixels"
    catalog = build_catalog(pixels, labels, seed=0, decoding=Decoding(32), cache=place)
    _, look = told(features_of(catalog, place, None, layered()), catalog)
    assert isinstance(look, FirstLook)
    assert look.n_classes == 6
    assert look.n_told_apart <= 2
    assert look.accuracy < 0.5


def test_few_images_and_few_labels_are_not_looked_at(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache", layered())
    monkeypatch.setattr(first_look, "_FEWEST_LABELS", 31)
    (only,) = told(features, catalog)
    assert isinstance(only, FeaturesStarted)
    assert told(features, catalog) == []  # all of them are in the cache


def test_an_extraction_that_was_stopped_goes_on_and_looks_at_once(
    catalog: Catalog, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    features_of(catalog, tmp_path / "pixels", cache, layered()).compute(ids=catalog.ids[:32])
    again = features_of(catalog, tmp_path / "pixels", cache, layered())
    started, look = told(again, catalog)
    assert isinstance(started, FeaturesStarted)
    assert started.n_images == N_PHOTOS - 32
    assert isinstance(look, FirstLook)
    assert look.n_labels == 30
    assert not len(again.missing(catalog.ids))


class Slow(nn.Module):
    """Takes 20 ms per image, and the first time half a second."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem, self.is_cold = stem, True

    def forward(self, images: Tensor) -> Tensor:
        time.sleep(0.02 * len(images) + 0.5 * self.is_cold)
        self.is_cold = False
        features: Tensor = self.stem(images)
        return features


def test_the_estimate_of_the_time_is_about_right(catalog: Catalog, tmp_path: Path) -> None:
    net = layered()
    features = features_of(catalog, tmp_path / "pixels", tmp_path / "cache", net)
    net.stem = Slow(net.stem)
    started = told(features, catalog)[0]
    assert isinstance(started, FeaturesStarted)
    assert 0.9 < started.seconds / (0.02 * N_PHOTOS) < 2  # a busy machine is slower


def test_pipe_and_terminal_tell_the_same() -> None:
    started = FeaturesStarted(n_images=10_600, seconds=840.0, n_bytes=84_000_000)
    look = FirstLook(
        n_labels=200, accuracy=0.71, commonest=0.2, n_classes=6, n_told_apart=4, seconds_left=820.0
    )
    pipe, terminal = io.StringIO(), io.StringIO()
    live = LiveReporter(
        Console(file=terminal, force_terminal=True, no_color=True, highlight=False, width=300), []
    )
    with live:
        for reporter in (LineReporter(Console(file=pipe, width=300)), live):
            for event in (started, look):
                reporter.on_event(event)
    for out in (pipe.getvalue(), terminal.getvalue()):
        for fact in ("10,600", "14 min", "84 MB", "200", "71.0 %", "4 of 6", "20.0 %"):
            assert fact in out
