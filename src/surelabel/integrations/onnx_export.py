"""A run's nets as one ONNX file, for programs that label images without surelabel or PyTorch.

The graph takes decoded images as bytes and returns probabilities and every measure of uncertainty.
Its T Monte Carlo samples are fixed: a sample is one draw of the weights, the same for all images,
so masks and draws from the posterior are constants of the graph. Left out is what needs other
images: the vote of neighbors, the matrix scaling fitted to it, and distances from the classes.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from surelabel.config.choices import Measure, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.ensemble import Ensemble, load_round
from surelabel.engines.inputs import Features, Images
from surelabel.engines.linear_model import LinearEnsemble
from surelabel.errors import InputError, RunError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.inference.sampling import draw_masks
from surelabel.integrations.exported_model import ExportedModel
from surelabel.models.backbones import Backbone, is_pretrained, load_backbone
from surelabel.models.bayesian import BayesianNet
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics

_PACKAGES = ("onnx", "onnxscript")
_LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE = -10.0, 4.0
_TINY = 1e-38
INPUT = "images"
OUTPUTS = ("probabilities", *(str(measure) for measure in Measure))


class LinearPart(nn.Module):
    """Features (N, D) -> outputs (T, N, K + 1) of linear heads drawn from the posterior."""

    def __init__(self, ensemble: LinearEnsemble) -> None:
        super().__init__()
        model = ensemble.model
        drawn = model.samples(-1, model.scale)
        self.space = model.space
        self.register_buffer("weights", torch.stack([head.weights for head in drawn]))
        self.register_buffer("bias", torch.stack([head.bias for head in drawn])[:, None])

    def forward(self, features: Tensor) -> Tensor:
        places = self.space(features)
        logits = places @ self.get_buffer("weights") + self.get_buffer("bias")
        return torch.cat([logits, torch.full_like(logits[..., :1], -torch.inf)], dim=2)


class SampledNet(nn.Module):
    """Images or features -> outputs (T, N, K + 1) of one net with fixed masks."""

    def __init__(self, net: BayesianNet, mask_seed: int, mc_samples: int) -> None:
        super().__init__()
        self.net = copy.deepcopy(net).cpu().eval()
        if mc_samples > 1:
            generator = torch.Generator().manual_seed(mask_seed)
            masks = draw_masks(self.net, mc_samples, generator)
            for layer, mask in zip(self.net.dropouts(), masks, strict=True):
                layer.mask = mask.detach().clone()
                layer.generator = None

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.net.stem(self.net.standardize(pixels))
        outputs: Tensor = self.net.tail(features[None])
        return outputs


class Exported(nn.Module):
    """uint8 images (N, S, S, C) -> probabilities (N, K) and each measure (N,)."""

    def __init__(self, backbone: Backbone | None, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(backbone).cpu() if backbone is not None else None
        self.parts = nn.ModuleList(parts)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        pixels = images.permute(0, 3, 1, 2)
        if self.backbone is not None:
            # Runs keep features as float16, so the same rounding is part of the model.
            pixels = self.backbone(self.backbone.standardize(pixels)).half().float()
        reduced = [_reduce(part(pixels)) for part in self.parts]
        means = [torch.stack(each).mean(0) for each in zip(*reduced, strict=True)]
        return _measures(*means)


def _reduce(outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(T, N, K + 1) -> E[p] (N, K), and E H[p], E[sum p^2] and E[exp s], (N,) each."""
    log_p = torch.log_softmax(outputs[..., :-1], dim=-1)
    p = log_p.exp()
    s = outputs[..., -1]
    noise = torch.where(
        s == -torch.inf, 0.0, s.clamp(_LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE).exp()
    )
    # p ln p is 0 where p is 0, and ln p may be -inf there.
    entropy = -(p * log_p.clamp(min=-100.0)).sum(-1)
    return p.mean(0), entropy.mean(0), p.square().sum(-1).mean(0), noise.mean(0)


def _measures(p: Tensor, entropy: Tensor, square: Tensor, noise: Tensor) -> tuple[Tensor, ...]:
    """What ``inference.measures`` computes, in the order of ``OUTPUTS``."""
    top = p.topk(2, dim=1).values
    predictive = -(p * p.clamp(min=_TINY).log()).sum(1)
    norm = p.square().sum(1)
    values = {
        Measure.LEAST_CONFIDENCE: p.sum(1) - top[:, 0],
        Measure.MARGIN: 1 - (top[:, 0] - top[:, 1]),
        Measure.PREDICTIVE_ENTROPY: predictive,
        Measure.EXPECTED_ENTROPY: entropy,
        Measure.MUTUAL_INFORMATION: (predictive - entropy).clamp(min=0),
        Measure.ALEATORIC_VARIANCE: noise,
        Measure.VARIANCE_TRACE: (square - norm).clamp(min=0),
        Measure.TOTAL_TRACE: 1 - norm,
        Measure.TOTAL_VARIANCE: noise + predictive,
    }
    return (p, *(values[measure] for measure in Measure))


def export_model(folder: RunFolder, path: Path, *, overwrite: bool = False) -> ExportedModel:
    """Write the nets of the last round of a run as ONNX, and their preprocessing as JSON."""
    check_packages()
    for target in (path, path.with_suffix(".json")):
        if target.exists() and not overwrite:
            raise InputError(f"{target} exists: give another --out, or --overwrite.")
    ensemble, metrics = last_ensemble(folder)
    return write_onnx(path, ensemble, folder.config, folder.catalog, metrics)


def last_ensemble(folder: RunFolder) -> tuple[Ensemble | LinearEnsemble, RoundMetrics]:
    """The nets of the last round, with images that need not be there."""
    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(f"{folder.path} has no nets: call surelabel resume {folder.path} first.")
    last.verify()
    config, catalog = folder.config, folder.catalog
    images = Images(catalog, open_pixels(catalog, cache_folder(config.cache)), in_memory=False)
    inputs: Images | Features = images
    if is_pretrained(config.net):
        inputs = Features(images, load_backbone(config), None, device=torch.device("cpu"))
    ensemble = load_round(last.weights(), last.number, config, inputs)
    return ensemble, RoundMetrics.from_json(last.metrics)


def exported_net(ensemble: Ensemble | LinearEnsemble, config: Config) -> Exported:
    """The module that is exported; it predicts what ``ensemble`` does without its vote."""
    if isinstance(ensemble, LinearEnsemble):
        backbone = getattr(ensemble.features, "backbone", None)
        return Exported(backbone, [LinearPart(ensemble)]).eval()
    _refuse_large_tails(config)
    backbone = getattr(ensemble.images, "backbone", None)
    parts = [SampledNet(m.net, m.mask_seed, config.mc_samples) for m in ensemble.members]
    return Exported(backbone, parts).eval()


def write_onnx(
    path: Path,
    ensemble: Ensemble | LinearEnsemble,
    config: Config,
    catalog: Catalog,
    metrics: RoundMetrics,
) -> ExportedModel:
    """Write the graph to ``path`` and the preprocessing beside it, as JSON."""
    check_packages()
    module = exported_net(ensemble, config)
    images = torch.zeros(2, catalog.size, catalog.size, catalog.channels, dtype=torch.uint8)
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module,
            (images,),
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            dynamic_shapes={INPUT: {0: torch.export.Dim("n", min=1)}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    with atomic_path(path) as scratch:
        program.save(str(scratch))
    left_out = _left_out(ensemble, metrics)
    beside = path.with_suffix(".json")
    text = json.dumps(_about(config, catalog, metrics, left_out), indent=2, ensure_ascii=False)
    atomic_write_bytes(beside, f"{text}\n".encode())
    return ExportedModel(path, beside, left_out)


def check_packages() -> None:
    """Refuse early where the extra is not installed."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"Writing ONNX needs {' and '.join(missing)}: pip install 'surelabel[onnx]'."
        )


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


def _left_out(ensemble: Ensemble | LinearEnsemble, metrics: RoundMetrics) -> tuple[str, ...]:
    found = []
    if metrics.neighbor_vote or (isinstance(ensemble, LinearEnsemble) and ensemble.model.vote):
        found.append("neighbor vote")
    if metrics.matrix_scaled:
        found.append("matrix scaling")
    if metrics.outlier_threshold is not None:
        found.append("out-of-distribution detection")
    return tuple(found)


def _about(
    config: Config, catalog: Catalog, metrics: RoundMetrics, left_out: tuple[str, ...]
) -> dict[str, Any]:
    """What a program needs to feed the graph and to read its answer."""
    adjusted = bool({"neighbor vote", "matrix scaling"} & set(left_out))
    named = catalog.resize.removesuffix("pad").removesuffix("-")
    return {
        "format": 1,
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
        "outputs": list(OUTPUTS),
        "classes": list(metrics.classes),
        "mc_samples": config.mc_samples,
        "score": str(config.score),
        "threshold": None if adjusted or metrics.threshold == -torch.inf else metrics.threshold,
        "left_out": list(left_out),
    }


@contextmanager
def _quietly() -> Iterator[None]:
    """The exporter tells of its own steps, in warnings and logs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
