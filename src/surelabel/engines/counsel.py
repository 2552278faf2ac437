"""What look-alikes say of images left, while nets learn from their own guesses of these.

A net that learns from its guesses grows sure of them, of the wrong ones too. What corrected these
guesses after the round before, look-alikes and held-out labels, corrects them while it learns.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surelabel.accept import Voice
from surelabel.config import Config
from surelabel.engines.alike import LookAlikes, kept
from surelabel.engines.features import Features
from surelabel.engines.images import Images
from surelabel.selftrain import Lesson
from surelabel.types import Ids, OnProgress, no_progress


class Counsel:
    """Gives look-alikes of some images the say in any guesses of them that they had before."""

    def __init__(
        self, asked: LookAlikes, voice: Voice, ids: Ids, on_progress: OnProgress = no_progress
    ) -> None:
        rows = asked.images.rows(ids)
        self._voice = voice
        self._said = asked.say(ids, on_progress)
        self._places = torch.full((len(asked.images.catalog),), -1)
        self._places[rows] = torch.arange(len(rows))

    def __call__(self, rows: Tensor, own: Tensor) -> Tensor:
        """Rows (B,) of these images and a net's probabilities (B, K) -> the same, heeded."""
        said = self._said[self._places[rows].numpy()]
        return torch.from_numpy(self._voice(own.double().numpy(), said)).float()


def counsel_for(
    lesson: Lesson,
    images: Images | Features,
    config: Config,
    on_progress: OnProgress = no_progress,
) -> Counsel | None:
    """On what a lesson leaves without a label, as the round before heeded look-alikes, if so."""
    if not config.consistency or lesson.earlier is None or not isinstance(images, Images):
        return None
    found = kept(lesson.earlier, images)
    pool = lesson.problem.pool_ids
    left = pool[~np.isin(pool, np.concatenate([lesson.machine_ids, lesson.strangers]))]
    return Counsel(*found, left, on_progress) if found is not None and len(left) else None
