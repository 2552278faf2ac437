"""A run's nets as one ONNX file, for programs that label images without surelabel or PyTorch.

The graph takes decoded images as bytes and returns what ``predict`` says of them: probabilities,
every measure of uncertainty, and the distance from labeled images. Its T samples are fixed: a
sample is one draw of the weights, the same for all images, so masks and draws from the posterior
are constants of the graph.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from surelabel.config.choices import Measure, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.ensemble import Ensemble, load_round
from surelabel.engines.inputs import Features, Images
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.engines.neighbor_search import load_adjustment
from surelabel.errors import InputError, RunError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.integrations.exported_model import ExportedModel
from surelabel.integrations.onnx_graph import EnsembleGraph, Exported, LinearGraph, PixelVote
from surelabel.models.backbones import is_pretrained, load_backbone
from surelabel.models.onnx_program import missing_packages, onnx_program
from surelabel.runs.folder import RunFolder, refuse_run_file
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.workflows.certify import certified_thresholds, standing_certification

INPUT = "images"
PREDICTED = ("probabilities", *(str(measure) for measure in Measure))
DISTANCE = "distance"
"""The last output, where a run has out-of-distribution detection."""


@dataclass(frozen=True)
class LastRound:
    """The last round of a run, as a module, and what is known of it."""

    module: Exported
    metrics: RoundMetrics
    config: Config
    catalog: Catalog
    thresholds: dict[str, float]
    """Certified thresholds, by guessed class."""
    has_distance: bool

    @property
    def outputs(self) -> list[str]:
        """Their names, in order."""
        return [*PREDICTED, *([DISTANCE] if self.has_distance else [])]


def export_model(folder: RunFolder, path: Path, *, overwrite: bool = False) -> ExportedModel:
    """Write the nets of the last round of a run as ONNX, and their preprocessing as JSON."""
    check_packages()
    if path.is_dir():
        raise InputError(f"{path} is a folder: give --out a file name such as {path}.onnx.")
    if path.suffix.lower() == ".json":
        raise InputError(
            f"{path}: give --out another ending, such as .onnx. What images the model expects goes "
            "to the file of that name that ends in .json."
        )
    for target in (path, path.with_suffix(".json")):
        refuse_run_file(target)
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists: give another --out, or --overwrite.")
    return write_onnx(path, last_round_of(folder))


def check_packages() -> None:
    """Refuse early where the extra is not installed."""
    missing = missing_packages()
    if missing:
        raise InputError(
            f"Writing ONNX needs {' and '.join(missing)}: pip install 'surelabel[onnx]'."
        )


def last_round_of(folder: RunFolder) -> LastRound:
    """The nets of the last round, with images that need not be there."""
    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(f"{folder.path} has no nets: call surelabel resume {folder.path} first.")
    last.verify()
    config, catalog = folder.config, folder.catalog
    images = Images(catalog, open_pixels(catalog, cache_folder(config.cache)), in_memory=False)
    inputs: Images | Features = images
    if is_pretrained(config.net):
        inputs = Features(images, load_backbone(config), None)
    ensemble = load_round(last.weights(), last.number, config, inputs)
    adjustment = load_adjustment(last.path, images) if inputs is images else None
    vote = None if adjustment is None else PixelVote(*adjustment, catalog.size)
    metrics = RoundMetrics.from_json(last.metrics)
    certified = certified_thresholds(standing_certification(folder), metrics.classes)
    return LastRound(
        Exported(getattr(inputs, "backbone", None), _predictor(ensemble), vote).eval(),
        metrics,
        config,
        catalog,
        {
            name: float(value)
            for name, value in zip(metrics.classes, certified, strict=True)
            if math.isfinite(value)
        },
        _has_distance(ensemble),
    )


def _predictor(ensemble: Ensemble | LinearEnsemble) -> LinearGraph | EnsembleGraph:
    if isinstance(ensemble, LinearEnsemble):
        return LinearGraph(ensemble)
    _refuse_large_tails(ensemble.config)
    return EnsembleGraph(ensemble)


def _refuse_large_tails(config: Config) -> None:
    pretrained = is_pretrained(config.net)
    if (pretrained and config.tail in (Tail.DETAIL, Tail.LAST_BLOCK)) or (
        config.net == Net.DENSENET
    ):
        what = f"the tail {config.tail}" if pretrained else f"the net {config.net}"
        raise InputError(
            f"This run has {what}, whose {config.mc_samples} samples would each be a copy of it in "
            "the graph: export a run with the compact net, or with the tail linear, small or wide."
        )


def _has_distance(ensemble: Ensemble | LinearEnsemble) -> bool:
    if isinstance(ensemble, LinearEnsemble):
        return ensemble.reference is not None
    return all(member.reference is not None for member in ensemble.members)


def write_onnx(path: Path, last: LastRound) -> ExportedModel:
    """Write the graph to ``path`` and the preprocessing beside it, as JSON."""
    catalog = last.catalog
    images = torch.zeros(2, catalog.size, catalog.size, catalog.channels, dtype=torch.uint8)
    program = onnx_program(
        last.module, images, input_name=INPUT, output_names=last.outputs, any_length=True
    )
    with atomic_path(path) as scratch:
        program.save(str(scratch))
    beside = path.with_suffix(".json")
    text = json.dumps(_about(last), indent=2, ensure_ascii=False)
    atomic_write_bytes(beside, f"{text}\n".encode())
    return ExportedModel(path, beside)


def _about(last: LastRound) -> dict[str, Any]:
    """What a program needs to feed the graph and to read its answer."""
    catalog, config, metrics = last.catalog, last.config, last.metrics
    named = catalog.resize.removesuffix("pad").removesuffix("-")
    return {
        "format": 2,
        "input": {
            "name": INPUT,
            "type": "uint8",
            "shape": ["n", catalog.size, catalog.size, catalog.channels],
            "color": "gray (Pillow's mode L)" if catalog.channels == 1 else "RGB",
            "orientation": "upright, by the EXIF tag",
            "transparency": "on white",
            "resize": named or "bicubic where the image is enlarged, otherwise lanczos (Pillow)",
            "aspect": "padded with gray 127" if catalog.resize.endswith("pad") else "squeezed",
        },
        "outputs": last.outputs,
        "classes": list(metrics.classes),
        "mc_samples": config.mc_samples,
        "accept": config.accept,
        "score": str(config.score),
        "threshold": metrics.threshold if math.isfinite(metrics.threshold) else None,
        "certified_thresholds": last.thresholds,
        "outlier_threshold": metrics.outlier_threshold if last.has_distance else None,
    }
