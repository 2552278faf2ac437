"""Where did the nets look? The attention of the tail detail over images of a run."""

from __future__ import annotations

from surelabel.config.choices import TRAINED_FROM_SCRATCH, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.pixels import open_pixels
from surelabel.errors import RunError
from surelabel.runs.folder import RunFolder
from surelabel.types import FloatArray, Ids, OnProgress, no_progress
from surelabel.workflows.label import as_recorded
from surelabel.workflows.model_inputs import open_features

CELL = 8
"""Side of a cell in pixels of the decoded image."""


def has_attention(config: Config) -> bool:
    """Whether the nets of a run with these settings decide where to look."""
    return config.tail is Tail.DETAIL and config.net not in TRAINED_FROM_SCRATCH


class Attention:
    """The nets of a run's last round, loaded once and asked where they look."""

    def __init__(self, folder: RunFolder) -> None:
        from surelabel.engines.device import prepare
        from surelabel.engines.ensemble import load_ensemble

        if not has_attention(folder.config):
            raise RunError(
                f"{folder.path} has nets that look at the whole image alike: label the images with "
                "--net lite0 --tail detail to see where they look."
            )
        last = folder.last_round()
        if last is None or not last.weights():
            raise RunError(f"{folder.path} has no nets: call surelabel resume {folder.path} first.")
        last.verify()
        prepare(as_recorded(folder))
        config, catalog = folder.config, folder.catalog
        pixels = open_pixels(catalog, cache_folder(config.cache))
        self._features = open_features(config, catalog, pixels)
        self._nets = load_ensemble(last.weights(), last.number, config, self._features)

    def maps(self, ids: Ids, on_progress: OnProgress = no_progress) -> FloatArray:
        """(N, H, W): how much each cell of each of ``ids`` counted in the last round; sums to 1.

        A cell is 8 x 8 pixels of the decoded, square image. The mean over heads and nets.
        """
        self._features.compute(on_progress, ids)
        return self._nets.attention(ids)


def attention_maps(
    folder: RunFolder, ids: Ids, on_progress: OnProgress = no_progress
) -> FloatArray:
    """``Attention.maps`` of a run, once."""
    return Attention(folder).maps(ids, on_progress)
