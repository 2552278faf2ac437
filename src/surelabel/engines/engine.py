"""The engine: where images are decoded, features computed, nets trained and images scored.

Workflows open one by the settings of a run and ask it for a learner. Self-training sees the learner
alone and does not know where it works.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol

from surelabel.config.choices import EngineName
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.engines.device import choose_device
from surelabel.engines.feature_runtime import open_runtime
from surelabel.engines.inputs import Features, Images
from surelabel.engines.local import learner_for
from surelabel.engines.scoring import LOCAL_SCORER, Scorer
from surelabel.models.backbones import Backbone
from surelabel.selftraining.learner import Learner


class Engine(Protocol):
    """Where a run computes."""

    @property
    def scorer(self) -> Scorer:
        """What scores images with trained nets."""

    def learner(self, config: Config, inputs: Images | Features) -> Learner:
        """What trains on ``inputs``."""

    def features(self, images: Images, backbone: Backbone, config: Config) -> Features:
        """The features of ``images``, none of them computed yet."""


class LocalEngine:
    """Everything in this process."""

    scorer: Scorer = LOCAL_SCORER

    def learner(self, config: Config, inputs: Images | Features) -> Learner:
        """Linear heads or nets, trained in this process."""
        return learner_for(config, inputs)

    def features(self, images: Images, backbone: Backbone, config: Config) -> Features:
        """Features that this process computes."""
        cache = cache_folder(config.cache)
        runtime = open_runtime(backbone, images.catalog.size, choose_device(config.device), cache)
        return Features(images, backbone, cache if config.feature_cache else None, runtime)


_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextlib.contextmanager
def running_engine(config: Config) -> Iterator[Engine]:
    """The engine that ``config`` names, until the block ends; inside another block, that one's."""
    running = _current.get()
    if running is not None or config.engine is EngineName.LOCAL:
        yield running or LocalEngine()
        return
    from surelabel.engines.ray_engine import ray_engine

    with ray_engine(config) as engine:
        token = _current.set(engine)
        try:
            yield engine
        finally:
            _current.reset(token)


def current_engine() -> Engine:
    """The engine of the block that is running; the local one outside of any."""
    return _current.get() or LocalEngine()
