"""A trial on labels that were left out chooses how images are learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import surelabel
from surelabel.config.choices import Effort, Tail
from surelabel.config.settings import Config
from surelabel.dataset.build import labeled_source
from surelabel.dataset.sources import find_images
from surelabel.messages.run import trial_sentence
from surelabel.models.backbones import photos_installed
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import Advice, Event
from surelabel.types import IntArray
from surelabel.workflows.first_labels import begin_unlabeled
from surelabel.workflows.label import Listeners, train
from surelabel.workflows.model_inputs import choose_net
from surelabel.workflows.net_trial import Trial, Way, Ways, try_ways, ways_for

SIDE = 24
pytestmark = pytest.mark.skipif(not photos_installed(), reason="surelabel[photos] is not installed")


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


def ways_of(shape: tuple[int, ...], cache: object, **options: object) -> Ways:
    asked = Config(cache=str(cache), **options)  # type: ignore[arg-type]
    source = find_images(np.zeros(shape, dtype=np.uint8))
    settled, _ = choose_net(asked, source)
    return ways_for(asked, settled, min(shape[1:3]))


def test_small_images_may_have_features_and_photographs_detail(tmp_path: Path) -> None:
    small = ways_of((2, 32, 40), tmp_path)
    assert list(small) == [Way.COMPACT, Way.POOLED]
    assert small[Way.POOLED].image_size == 224
    assert small[Way.POOLED].tune_share == 0
    large = ways_of((2, 300, 400, 3), tmp_path, tune_share=0.3)
    assert list(large) == [Way.POOLED, Way.DETAIL]
    detail = large[Way.DETAIL]
    assert (detail.tail, detail.image_size, detail.tune_share) == (Tail.DETAIL, 300, 0.3)


@pytest.mark.parametrize(
    "options",
    [{"net": "compact"}, {"effort": Effort.LOW}, {"image_size": 20}, {"tail": Tail.SMALL}],
)
def test_what_the_user_decided_is_not_tried(tmp_path: Path, options: dict[str, object]) -> None:
    assert not ways_of((2, 32, 40), tmp_path, **options)


def trial_of(config: Config, images: object, labels: object, **split: float) -> Trial | None:
    settled, source = choose_net(config, find_images(images))  # type: ignore[arg-type]
    ways = ways_for(config, settled, SIDE)
    return try_ways(ways, *labeled_source(source, labels, seed=0, **split))  # type: ignore[arg-type]


def test_both_ways_predict_unseen_labels(tmp_path: Path) -> None:
    images, labels = glyphs(70)
    given = np.where(np.arange(70) < 60, labels, -1)
    config = Config(cache=str(tmp_path), steps=40, threads=1, mc_samples=2)
    trial = trial_of(config, images, given)
    assert trial is not None
    assert trial.n_labels in (12, 24, 36)  # folds of the five
    assert 0 <= trial.other_loss < np.log(3)  # better than a guess without looking
    assert trial.usual_loss >= 0
    assert trial.chosen in (Way.COMPACT, Way.POOLED)
    assert Trial.from_json(trial.to_json()) == trial


def test_first_labels_are_tried_before_they_are_trained_on(tmp_path: Path) -> None:
    """The images look alike from afar; what is chosen takes effect in settings and decoding."""
    rng, photos = np.random.default_rng(0), tmp_path / "photos"
    photos.mkdir()
    for i in range(64):
        pixels = rng.integers(0, 256, (96, 100, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{i:02}.png")
    options = {"steps": 2, "max_rounds": 1, "threads": 1, "mc_samples": 2}
    config = Config.from_mapping({**options, "cache": str(tmp_path / "cache")})
    folder = begin_unlabeled(photos, tmp_path / "run", config)
    for item_id, path in zip(folder.catalog.ids, folder.catalog.paths, strict=True):
        if int(path[:2]) < 61:
            label = "ab"[int(path[:2]) % 2]
            folder.answers.add(item_id, AnswerKind.LABEL, label, purpose=Purpose.FIRST)
    events: list[Event] = []
    train(folder, Listeners(on_event=events.append))
    trial = surelabel.open_run(tmp_path / "run").summary.trial
    assert trial is not None
    told = [e.text for e in events if isinstance(e, Advice)]
    begun = told.index(next(text for text in told if "61" in text and "--tail" in text))
    assert begun < told.index(trial_sentence(trial)), "told before the minutes, not after"
    opened = RunFolder.open(tmp_path / "run")
    is_detail = trial.chosen is Way.DETAIL
    assert (opened.config.tail is Tail.DETAIL) == is_detail
    assert opened.catalog.size == (96 if is_detail else 224)


def test_few_labels_and_certify_labels_are_no_evidence(tmp_path: Path) -> None:
    images, labels = glyphs(60)
    config = Config(cache=str(tmp_path))
    partly = np.where(np.arange(60) < 30, labels, -1)
    assert trial_of(config, images, partly) is None
    assert trial_of(config, images, labels, certify_share=0.5) is None


def test_the_run_says_what_was_tried_and_uses_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(90, 160, (70, 96, 96, 3)).astype(np.uint8)
    labels = np.where(np.arange(70) < 60, np.arange(70) % 2, -1)
    config = Config(cache=str(tmp_path / "cache"), steps=2, max_rounds=1, threads=1, mc_samples=2)
    run = surelabel.label(images, labels, tmp_path / "run", config=config)
    trial = run.summary.trial
    assert trial is not None
    assert (trial.usual, trial.other) == (Way.POOLED, Way.DETAIL)
    assert (run.config.tail is Tail.DETAIL) == (trial.chosen is Way.DETAIL)
    text = trial_sentence(trial)
    assert f"{trial.usual_loss:.2f}" in text
    assert f"{trial.other_loss:.2f}" in text


def test_where_pooled_features_are_good_enough_nothing_else_is_tried(tmp_path: Path) -> None:
    images, labels = glyphs(61)
    labels[-1] = -1
    large = images.repeat(5, axis=1).repeat(5, axis=2)
    config = Config(cache=str(tmp_path), threads=1, mc_samples=2)
    settled, source = choose_net(config, find_images(large))
    ways = ways_for(config, settled, 5 * SIDE)
    trial = try_ways(ways, *labeled_source(source, labels, seed=0))
    assert trial is not None
    assert trial.usual_error <= 0.02
    assert np.isnan(trial.other_loss)
    assert trial.chosen is Way.POOLED
