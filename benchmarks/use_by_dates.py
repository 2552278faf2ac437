"""The cost of rendering a synthetic photograph relative to encoding it, and images per second."""

from __future__ import annotations

import time

from settings import Settings
from surelabel.types import JsonObject
from surelabel_studies.use_by_dates.scene import render
from surelabel_studies.use_by_dates.worker import encode

_WARM = 150
"""Photographs after which nearly all packaging has been drawn once."""


def main(settings: Settings) -> JsonObject:
    n, warm = (3, 2) if settings.tiny else (200, _WARM)
    for index in range(warm):
        render(index, "set4")
    rendering = encoding = 0.0
    for index in range(warm, warm + n):
        started = time.process_time()
        image, _ = render(index, "set4")
        between = time.process_time()
        encode(image)
        rendering += between - started
        encoding += time.process_time() - between
    both = (rendering + encoding) / n
    return {
        "images": n,
        "render_ms": round(1000 * rendering / n, 1),
        "encode_ms": round(1000 * encoding / n, 1),
        "images_per_second_on_two_cores": round(2 / both, 1),
        "ratio": round(rendering / encoding, 1),
    }
