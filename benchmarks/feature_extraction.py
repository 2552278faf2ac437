"""From JPEG files to cached features by onnxruntime and by PyTorch, with the default networks."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from made_up_photos import skipped_without_weights
from settings import Settings
from surelabel.config.settings import Config
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.decode import Decoding
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.feature_runtime import FeatureRuntime, TorchRuntime, open_runtime
from surelabel.engines.inputs import Features, Images
from surelabel.models.backbones import Backbone, load_backbone
from surelabel.models.placement import Placement
from surelabel.types import JsonObject
from surelabel.workflows.model_inputs import PHOTOGRAPH_NETS, decoding_of

_SIDES = {"2 megapixels": (1600, 1280), "256 pixels": (256, 256)}
_CPU = torch.device("cpu")


def main(settings: Settings) -> JsonObject:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=64, tiny=4)
    config = Config(net=PHOTOGRAPH_NETS)
    backbone, decoding = load_backbone(config), decoding_of(config)
    result: JsonObject = {"images": n, "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        started = time.process_time()
        fast = open_runtime(backbone, decoding.size, _CPU, place)
        result["graph_seconds"] = round(time.process_time() - started, 1)
        result["runtime"] = fast.name or "pytorch"
        runtimes = {"pytorch": TorchRuntime(backbone, Placement(_CPU)), "ours": fast}
        for name, sides in _SIDES.items():
            photos = place / name
            write_photos(photos, n, sides)
            repeats = 1 if settings.tiny else 3
            result[name] = _compared(photos, backbone, decoding, runtimes, repeats)
    result["ratio"] = min(result[name]["ratio"] for name in _SIDES)
    return result


def _compared(
    photos: Path,
    backbone: Backbone,
    decoding: Decoding,
    runtimes: dict[str, FeatureRuntime],
    repeats: int,
) -> JsonObject:
    """The least processor time per image of each runtime, which take turns, and their ratio."""
    times: dict[str, list[float]] = {name: [] for name in ("decode", *runtimes)}
    n = len(list(photos.iterdir()))
    for _ in range(repeats):
        for name, runtime in runtimes.items():
            with tempfile.TemporaryDirectory() as folder:
                cache, started = Path(folder), time.process_time()
                catalog = unlabeled_catalog(photos, decoding=decoding, cache=cache)
                times["decode"].append(time.process_time() - started)
                images = Images(catalog, open_pixels(catalog, cache), in_memory=False)
                Features(images, backbone, cache, runtime).compute()
                times[name].append(time.process_time() - started)
    best = {name: min(found) / n for name, found in times.items()}
    return {
        "decode_ms": round(1000 * best["decode"], 1),
        "pytorch_ms": round(1000 * best["pytorch"], 1),
        "ours_ms": round(1000 * best["ours"], 1),
        "ratio": round(best["pytorch"] / best["ours"], 2),
    }


def write_photos(folder: Path, n: int, sides: tuple[int, int]) -> None:
    """Different JPEG files, smooth with some grain like photographs."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(sides, Image.Resampling.BICUBIC), dtype=np.int16)
        grain = rng.normal(0, 6, smooth.shape)
        noisy = np.clip(smooth + grain, 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{i:05d}.jpg", quality=90)
