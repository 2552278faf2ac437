"""A run's nets in onnxruntime beside our own prediction, from decoded images to all measures.

One thread each; both do the same work, the vote of neighbors and the distances included. The
images are not part of the run. Photographs are random pixels: time does not depend on them.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import surelabel
from settings import Settings
from surelabel.inference.measures import all_measures
from surelabel.models.backbones import photos_installed

N_TRAINED = 300
TURNS = 3


def main(settings: Settings) -> dict[str, Any]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError:
        return {"skipped": "needs surelabel[onnx]"}
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    results = {}
    cases = {"compact, 28 pixels": ("compact", 28, 1, settings.size(0, 4000, 50))}
    if photos_installed() and not settings.tiny:
        cases["lite0, 320 pixels"] = ("lite0", 320, 3, 48)
        cases["lite0+lite2, 320 pixels (default)"] = ("lite0+lite2", 320, 3, 48)
    for name, (net, side, channels, n) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            run = _run(Path(folder), net, side, channels, n)
            path = run.export_model(Path(folder) / "model.onnx").path
            session = onnxruntime.InferenceSession(str(path), options)
            pixels, own = _own(run, _images(1, side, channels, n)[0])

            def theirs(pixels: Any = pixels, session: Any = session) -> Any:
                size = 256 if pixels.shape[1] < 100 else 16
                parts = [pixels[i : i + size] for i in range(0, len(pixels), size)]
                found = [session.run(None, {"images": part}) for part in parts]
                return [np.concatenate(each) for each in zip(*found, strict=True)]

            mine, other = own(), theirs()
            expected = [mine.probabilities, *all_measures(mine).values()]
            expected += [] if mine.distance is None else [mine.distance]
            pairs = zip(expected, other, strict=True)
            times = {"surelabel": _fastest(own), "onnxruntime": _fastest(theirs)}
            results[name] = {
                "largest_difference": max(float(np.abs(a - b).max()) for a, b in pairs),
                "ms_per_image": {k: round(1000 * v / n, 3) for k, v in times.items()},
                "ratio": round(times["onnxruntime"] / times["surelabel"], 3),
                "megabytes": round(path.stat().st_size / 1e6, 1),
            }
    return {"models": results}


def _run(folder: Path, net: str, side: int, channels: int, n: int) -> surelabel.Run:
    images, truth = _images(0, side, channels, n)
    labels = np.where(np.arange(n) < min(N_TRAINED, 2 * n // 3), truth, -1)
    return surelabel.label(
        images,
        labels=labels,
        out=folder / "run",
        cache=str(folder / "cache"),
        net=net,
        image_size=side,
        steps=5,
        members=1,
        max_rounds=1,
        threads=1,
    )


def _images(seed: int, side: int, channels: int, n: int) -> tuple[Any, Any]:
    """Noise, whose upper half is brighter in one of two classes; a tenth of the labels is wrong."""
    rng = np.random.default_rng(seed)
    shape = (n, side, side) if channels == 1 else (n, side, side, channels)
    images = rng.integers(0, 160, shape).astype(np.uint8)
    truth = np.arange(n) % 2
    images[truth == 1, : side // 2] += 20
    return images, np.where(rng.random(n) < 0.1, 1 - truth, truth)


def _own(run: surelabel.Run, images: Any) -> tuple[Any, Callable[[], Any]]:
    """Decoded images that are not part of the run, and a function that predicts from pixels."""
    from surelabel.dataset.array_store import cache_folder
    from surelabel.dataset.build import catalog_like
    from surelabel.dataset.pixels import open_pixels
    from surelabel.engines.ensemble import predict_as_round
    from surelabel.workflows.model_inputs import open_inputs

    folder = run.folder
    last, config = folder.last_round(), folder.config.replace(feature_cache=False)
    assert last is not None
    cache = cache_folder(config.cache)
    catalog = catalog_like(folder.catalog, images, cache=cache)
    store = open_pixels(catalog, cache)

    def predict() -> Any:
        inputs = open_inputs(config, catalog, store)
        return predict_as_round(last.weights(), last.number, config, inputs, catalog.ids)

    return store.gather(catalog.digests), predict


def _fastest(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(TURNS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)
