"""What a frozen net says of images, kept on disk as float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surelabel.catalog.store import ArrayStore


class FeatureStore(ArrayStore[np.float16]):
    """Features of one shape by image digest, for one net and one way to show it images.

    ``key`` names the net's weights; runs on the same images share what is here.
    """

    name = "features"
    what = "features of images"

    def __init__(self, cache: Path, key: str, shape: tuple[int, ...]) -> None:
        super().__init__(Path(cache) / f"features-{key}", shape, np.float16, "f16")
