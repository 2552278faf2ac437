"""One image in ten of the pool is of no class: letters, noise and textures among MNIST's digits.

Reports the share of outliers and of digits that is accepted, the AUROC of the outlier score, and
whether the promise holds when outliers are among the certify images. Needs
``../shared/data/mnist``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image, ImageDraw, ImageFont

from settings import Settings

DATA = Path(__file__).resolve().parents[2] / "shared/data/mnist"
_LETTERS = "ABCDEFGHJKMNPQRTUVWXYadefhkmnrtwy"
Pixels = npt.NDArray[np.uint8]


def letter(rng: np.random.Generator) -> Pixels:
    """A letter that is no digit, as large and as thick as one, somewhat turned."""
    canvas = Image.new("L", (56, 56))
    font = ImageFont.load_default(size=float(rng.uniform(34, 46)))
    text = _LETTERS[rng.integers(len(_LETTERS))]
    ImageDraw.Draw(canvas).text(
        (28, 28), text, fill=255, font=font, anchor="mm", stroke_width=int(rng.integers(0, 2))
    )
    turned = canvas.rotate(float(rng.uniform(-15, 15)), resample=Image.Resampling.BILINEAR)
    return np.asarray(turned.resize((28, 28), Image.Resampling.BOX), dtype=np.uint8)


def noise(rng: np.random.Generator) -> Pixels:
    """Noise, coarse or fine, as bright as a digit."""
    side = int(rng.choice([4, 7, 14, 28]))
    small = Image.fromarray(rng.integers(0, 256, (side, side), dtype=np.uint8))
    return np.asarray(small.resize((28, 28), Image.Resampling.BICUBIC), dtype=np.uint8)


def texture(rng: np.random.Generator) -> Pixels:
    """Waves, checks or dots."""
    y, x = np.mgrid[0:28, 0:28]
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 9)
    along = np.cos(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / period)
    across = np.cos(2 * np.pi * (y * np.cos(angle) - x * np.sin(angle)) / period)
    kinds = (along, along * across, np.maximum(along, across))
    values = kinds[rng.integers(3)]
    bright: Pixels = (np.clip(values, 0, 1) * 255).astype(np.uint8)
    return bright


def main(settings: Settings) -> dict[str, Any]:
    if not (DATA / "train-images-idx3-ubyte.gz").exists():
        return {"skipped": "shared/data/mnist is not there"}
    if settings.tiny:
        return study(300, 100, settings.seed, {"steps": 10, "max_rounds": 1, "members": 1})
    return study(settings.images or 10_000, 1000, settings.seed, {})


def study(n_pool: int, n_certify: int, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Digits in random order: 500 train, 500 tune; then the pool, its first part certifies."""
    import surelabel
    from surelabel.dataset.arrays import read_idx

    rng = np.random.default_rng(seed)
    images = read_idx(DATA / "train-images-idx3-ubyte.gz")
    truth = read_idx(DATA / "train-labels-idx1-ubyte.gz").astype(str)
    order = rng.permutation(len(truth))[: 1000 + n_pool]
    images, truth = np.array(images[order]), truth[order].astype(object)
    odd = 1000 + rng.permutation(n_pool)[: n_pool // 10]
    for number, row in enumerate(odd.tolist()):
        images[row] = (letter, noise, texture)[number % 3](rng)
        truth[row] = "none of these"
    splits = ["train"] * 500 + ["tune"] * 500 + ["certify"] * n_certify
    n = len(splits)
    table = pd.DataFrame({"index": range(n), "label": truth[:n], "split": splits})
    with tempfile.TemporaryDirectory() as place:
        settings = {"seed": seed, "cache": f"{place}/cache", "max_error": 0.02}
        settings |= {"accept": "tukey", "net": "compact"}
        config = surelabel.Config.from_mapping(settings | options)
        run = surelabel.label(images, table, f"{place}/run", config=config)
        promise = run.summary.certification
        result = run.annotations
    assert promise is not None
    return {"pool": n_pool, **_figures(result, truth, n), **_promise(result, truth, n, promise)}


def _figures(result: pd.DataFrame, truth: npt.NDArray[Any], n_labeled: int) -> dict[str, Any]:
    """Among pool images that do not certify, whose labels nobody knew."""
    from sklearn.metrics import roc_auc_score

    pool = np.arange(len(truth)) >= n_labeled
    odd = (truth == "none of these") & pool
    accepted = (result["source"] == "pseudo").to_numpy()
    distance = result["distance"].to_numpy(dtype=float)
    return {
        "outliers": int(odd.sum()),
        "outliers_accepted": round(float(accepted[odd].mean()), 4),
        "digits_accepted": round(float(accepted[pool & ~odd].mean()), 4),
        "auroc_of_distance": round(float(roc_auc_score(odd[pool], distance[pool])), 4),
        "auroc_of_score": round(float(roc_auc_score(odd[pool], result["score"][pool])), 4),
    }


def _promise(
    result: pd.DataFrame, truth: npt.NDArray[Any], n_labeled: int, look: Any
) -> dict[str, Any]:
    """The promise beside the error of the machine's labels, outliers counted as wrong."""
    accepted = (result["source"] == "pseudo").to_numpy()
    wrong = result["label"].to_numpy()[accepted] != truth[accepted]
    part = look.parts[0]
    return {
        "certified": part.status,
        "max_error": part.error,
        "certify_labels": n_labeled - 1000,
        "true_error": round(float(wrong.mean()), 5) if len(wrong) else None,
    }
