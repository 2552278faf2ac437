"""What nets are fed: pixels by id, or the cached features of a frozen backbone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from surelabel.config.settings import Config
from surelabel.dataset.array_store import (
    FeatureStore,
    PixelStore,
    bytes_text,
    n_distinct,
    refuse_no_room,
)
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.parallel import ProgressCounter, map_batches
from surelabel.dataset.pixels import first_places
from surelabel.engines.feature_runtime import FeatureRuntime, TorchRuntime
from surelabel.engines.stored_rows import StoredRows, StoredViews
from surelabel.errors import InputError, RunError
from surelabel.files.mapped_arrays import take
from surelabel.models.backbones import Backbone, Layers
from surelabel.models.placement import Placement
from surelabel.training.augmentation import LIGHT, augment
from surelabel.types import Ids, IntArray, OnProgress, derive_seed, no_progress

_IN_MEMORY = 1 << 26
"""Collections up to this many bytes live as one tensor; larger ones stay mapped."""
_SAMPLE = 10_000
_CHUNK = 256


class Images:
    """The decoded images of a catalog."""

    def __init__(self, catalog: Catalog, store: PixelStore, *, in_memory: bool = True) -> None:
        self.catalog = catalog
        self.channels = catalog.channels
        self._store = store
        self._all: Tensor | None = None
        self._at: IntArray | None = None
        if in_memory and len(catalog) * catalog.size**2 * catalog.channels <= _IN_MEMORY:
            self._all = _to_tensor(store.gather(catalog.digests))

    def rows(self, ids: Ids) -> Tensor:
        """Positions for ``pixels``, (N,)."""
        return torch.from_numpy(self.catalog.rows(ids))

    def pixels(self, rows: Tensor) -> Tensor:
        """uint8 images (N, C, H, W) at these rows."""
        if self._all is not None:
            return self._all[rows]
        if self._at is None:  # where the pixels are is looked up once
            self._at = self._store.rows(self.catalog.digests)
        return _to_tensor(self._store.read(self._at[rows.numpy()]))

    def stored(self) -> StoredRows:
        """The pixels as another process can read them."""
        return StoredRows.of(self._store, self._store.rows(self.catalog.digests))

    def statistics(self, seed: int) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each channel (C,), from a random sample of the images."""
        rng = np.random.default_rng(derive_seed(seed, "statistics"))
        chosen = torch.from_numpy(np.sort(rng.permutation(len(self.catalog))[:_SAMPLE]))
        total = torch.zeros(2, self.catalog.channels, dtype=torch.float64)
        for start in range(0, len(chosen), _CHUNK):
            pixels = self.pixels(chosen[start : start + _CHUNK]).double()
            total += torch.stack([pixels.sum((0, 2, 3)), pixels.square().sum((0, 2, 3))])
        mean, square = total / (len(chosen) * self.catalog.size**2)
        std = (square - mean**2).clamp(min=0).sqrt()
        return mean.float(), std.clamp(min=1.0).float()


def _to_tensor(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Tensor:
    """(N, H, W, C) array -> (N, C, H, W) tensor, channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)


class MemoryStore:
    """A ``FeatureStore`` without files."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.row_bytes = 0
        """On disk."""
        self._row: dict[str, int] = {}
        self._all: npt.NDArray[np.float16] = np.empty((0, *shape), dtype=np.float16)

    def missing(self, digests: Ids) -> Ids:
        """The distinct ``digests`` that are not stored, in the order of their first use."""
        unknown = [d for d in dict.fromkeys(digests.tolist()) if d not in self._row]
        return np.array(unknown, dtype=np.str_)

    def add(self, digests: Ids, arrays: npt.NDArray[np.float16]) -> None:
        """Store ``arrays`` (N, ...) under ``digests``, which are new."""
        for i, digest in enumerate(digests.tolist(), start=len(self._all)):
            self._row[digest] = i
        self._all = np.concatenate([self._all, arrays])

    def rows(self, digests: Ids) -> IntArray:
        """(N,) where ``digests`` are."""
        return np.array([self._row[d] for d in digests.tolist()], dtype=np.int64)

    def read(self, rows: IntArray) -> npt.NDArray[np.float16]:
        """(N, ...) arrays at ``rows``."""
        return self._all[rows]


Half: TypeAlias = npt.NDArray[np.float16]

_SAVE = 256
"""Images between two savings: what a killed program may lose."""
_LEAST_SHARE = 0.05


class HeadInputs(Protocol):
    """What linear heads are fitted to: one row of features per item of a catalog."""

    catalog: Catalog
    lengths_matter: bool
    """Whether rows may be told apart by their length; those of a pre-trained net by direction."""

    @property
    def layers(self) -> Layers:
        """Which columns come from which layer."""

    @property
    def digest(self) -> str:
        """Of what computes the features: heads work with no others."""

    def rows(self, ids: Ids) -> Tensor:
        """Positions for ``pixels``, (N,)."""

    def pixels(self, rows: Tensor) -> Tensor:
        """Features (N, D) at these rows."""


class GivenFeatures:
    """Features that the user has computed: embeddings of text or sound, columns of a table."""

    lengths_matter = True
    digest = "given"

    def __init__(self, catalog: Catalog, values: npt.NDArray[np.float32]) -> None:
        """``values`` (N, D) are in the order of the catalog."""
        self.catalog = catalog
        self.layers = Layers((values.shape[1],), (0,))
        self._values = torch.from_numpy(values)

    def rows(self, ids: Ids) -> Tensor:
        """Positions for ``pixels``, (N,)."""
        return torch.from_numpy(self.catalog.rows(ids))

    def pixels(self, rows: Tensor) -> Tensor:
        """float32 features (N, D) at these rows."""
        return self._values[rows]


def feature_store(
    cache: Path, backbone: Backbone, size: int, resize: str, runtime: str = ""
) -> FeatureStore:
    """Where the features are that ``runtime`` computes of images decoded to ``size``."""
    key = "-".join(filter(None, [backbone.digest, str(size), resize, runtime]))
    return FeatureStore(cache, key, backbone.shape(size))


class Features:
    """The features of a catalog's images, and of distorted views of some of them."""

    lengths_matter = False

    def __init__(
        self,
        images: Images,
        backbone: Backbone,
        cache: Path | None,
        runtime: FeatureRuntime | None = None,
    ) -> None:
        """``cache`` None keeps the features in memory; they are rounded in the same way.

        ``runtime`` computes what ``backbone`` would; by default PyTorch does, on the processor.
        """
        self.catalog = images.catalog
        self.backbone = backbone
        self.runtime = runtime or TorchRuntime(backbone, Placement(torch.device("cpu")))
        self._images = images
        size, resize = self.catalog.size, self.catalog.resize
        self.store: FeatureStore | MemoryStore = (
            MemoryStore(backbone.shape(size))
            if cache is None
            else feature_store(cache, backbone, size, resize, self.runtime.name)
        )
        self.channels = self.store.shape[0]
        self._at: IntArray = np.empty(0, dtype=np.int64)
        self._views: IntArray = np.empty((0, 1), dtype=np.int64)

    @property
    def layers(self) -> Layers:
        """Of the backbone, which has them where a linear head is trained on it."""
        assert self.backbone.layers is not None, "a backbone for the tail linear has layers"
        return self.backbone.layers

    @property
    def digest(self) -> str:
        """Of the backbone's weights."""
        return self.backbone.digest

    @property
    def n_at_once(self) -> int:
        """How many images are under way at a time."""
        return self.runtime.batch * torch.get_num_threads()

    def missing(self, ids: Ids) -> Ids:
        """Those of ``ids`` that have no features yet, in this order, equal images once."""
        digests = take(self.catalog.digests, self.catalog.rows(ids))
        missing = self.store.missing(digests)
        return ids[first_places(digests, missing)]

    def compute(self, on_progress: OnProgress = no_progress, ids: Ids | None = None) -> None:
        """Compute what the store lacks, of all images or of ``ids``; then these can be read."""
        everything, digests = self.catalog.ids, self.catalog.digests
        missing = self.missing(everything)
        self._refuse_no_room(len(missing))
        some = missing if ids is None else self.missing(ids)
        rows = self.catalog.rows(some)
        wanted = [(str(digests[row]), int(row), -1) for row in rows]
        size = n_distinct(digests) * self.store.row_bytes
        what = f"features ({bytes_text(size)})" if size else "features"
        ticker = ProgressCounter(on_progress, what, len(everything), len(everything) - len(missing))
        self._extract(wanted, ticker, flips=False)
        rows = self.catalog.rows(everything if ids is None else ids)
        self._at = np.full(len(everything), -1, dtype=np.int64)
        self._at[rows] = self.store.rows(take(digests, rows))
        self._views = self._at[:, None]

    def compute_views(
        self, ids: Ids, n_views: int, *, flips: bool, on_progress: OnProgress = no_progress
    ) -> None:
        """Compute ``n_views`` distorted views of each of ``ids``; equal images have equal ones."""
        rows, digests = self.catalog.rows(ids), self.catalog.digests
        keys = np.array(
            [[_view_key(str(digests[row]), v, flips=flips) for v in range(n_views)] for row in rows]
        ).reshape(len(rows), n_views)
        place = {
            key: (int(row), v)
            for row, of in zip(rows, keys, strict=True)
            for v, key in enumerate(of)
        }
        wanted = [(key, *place[key]) for key in self.store.missing(keys.ravel()).tolist()]
        n_bytes = len(wanted) * self.store.row_bytes
        self._refuse_no_room(len(wanted))
        what = f"views ({bytes_text(n_bytes)} to write)"
        ticker = ProgressCounter(on_progress, what, keys.size, keys.size - len(wanted))
        self._extract(wanted, ticker, flips=flips)
        self._views = np.repeat(self._at[:, None], 1 + n_views, axis=1)
        self._views[rows, 1:] = self.store.rows(keys.ravel()).reshape(keys.shape)

    def rows(self, ids: Ids) -> Tensor:
        """Positions for ``pixels``, (N,)."""
        return torch.from_numpy(self.catalog.rows(ids))

    def pixels(self, rows: Tensor) -> Tensor:
        """float16 features (N, ...) at these rows."""
        return torch.from_numpy(self.store.read(self._at[rows.numpy()]))

    def views(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Features (N, ...) of the image or of one of its views, drawn for each row."""
        pick = torch.randint(self._views.shape[1], (len(rows),), generator=generator)
        return torch.from_numpy(self.store.read(self._views[rows.numpy(), pick.numpy()]))

    def stored(self) -> StoredRows | None:
        """The features as another process can read them; None where they are in memory only."""
        return None if isinstance(self.store, MemoryStore) else StoredRows.of(self.store, self._at)

    def stored_views(self) -> StoredViews | None:
        """The views as another process can read them."""
        stored = self.stored()
        return None if stored is None else StoredViews(stored, self._views)

    def statistics(self, seed: int) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each feature (D,), from a random sample; 0 and 1 for maps."""
        if len(self.store.shape) > 1:
            return torch.zeros(self.channels), torch.ones(self.channels)
        rng = np.random.default_rng(derive_seed(seed, "statistics"))
        chosen = np.sort(rng.permutation(len(self.catalog))[:_SAMPLE])
        sample = self.pixels(torch.from_numpy(chosen)).double()
        std = sample.std(dim=0, correction=0)
        least = max(float(std.median()) * _LEAST_SHARE, 1e-6)
        return sample.mean(dim=0).float(), std.clamp(min=least).float()

    def _extract(
        self, wanted: Sequence[tuple[str, int, int]], ticker: ProgressCounter, *, flips: bool
    ) -> None:
        """Store the features of (key, row, view); view -1 is the image as it is.

        Each thread reads a batch and computes its features alone: that is faster than all threads
        on one batch, and the features do not depend on the number of threads.
        """
        compute = partial(self.features_of, flips=flips)
        keys: list[str] = []
        parts: list[Half] = []
        threads = torch.get_num_threads()
        alone = partial(torch.set_num_threads, 1)
        try:
            for batch, part in map_batches(
                compute, wanted, self.runtime.batch, workers=threads, initializer=alone
            ):
                keys += [key for key, _, _ in batch]
                parts.append(part)
                ticker.advance(len(batch))
                if len(keys) >= _SAVE:
                    self.store.add(np.array(keys), np.concatenate(parts))
                    keys, parts = [], []
        finally:
            torch.set_num_threads(threads)
        if keys:
            self.store.add(np.array(keys), np.concatenate(parts))

    def features_of(self, batch: Sequence[tuple[str, int, int]], *, flips: bool) -> Half:
        """Features (B, ...) of (key, row, view), at most as many as the runtime takes at a time."""
        features = self.runtime(self._shown(batch, flips=flips))
        return to_half(features[: len(batch)], self.backbone.name)

    def _shown(self, batch: Sequence[tuple[str, int, int]], *, flips: bool) -> Tensor:
        """What the backbone is shown, (B, 3, S, S), filled up with the last image."""
        filled = [*batch, *[batch[-1]] * (self.runtime.batch - len(batch))]
        pixels = self._images.pixels(torch.tensor([row for _, row, _ in filled]))
        shown = self.backbone.standardize(pixels)
        for i, (key, _, view) in enumerate(filled):
            if view >= 0:
                generator = torch.Generator().manual_seed(derive_seed(0, key))
                shown[i : i + 1] = augment(shown[i : i + 1], LIGHT, generator, flips=flips)
        return shown

    def _refuse_no_room(self, n: int) -> None:
        if not isinstance(self.store, MemoryStore):
            refuse_no_room(self.store.folder, n * self.store.row_bytes, "The features")


def to_half(features: Tensor, name: str) -> Half:
    """float32 -> float16, the one rounding that every run uses; ``InputError`` if they overflow."""
    half = features.half()
    if not torch.isfinite(half).all():
        raise InputError(
            f"The net {name} gives features beyond 65504 or that are not numbers, which cannot "
            "be kept as float16: its weights are damaged or of another net."
        )
    return np.ascontiguousarray(half.numpy())


def refuse_other_backbone(
    path: Path, about: Mapping[str, Any], frozen: HeadInputs, config: Config
) -> None:
    """``RunError`` where the tail in ``path`` was trained on features of other weights."""
    if about.get("backbone") != frozen.digest:
        file = config.net_weights
        found = f"put back into {file}" if file else "install"
        raise RunError(
            f"{path} was trained on features of other weights of {config.net} than those "
            f"on this machine: {found} the ones that it began with."
        )


def _view_key(digest: str, view: int, *, flips: bool) -> str:
    """Names a view in the cache and seeds its augmentation, so its text must not change."""
    strength = ", ".join(f"{name}={value}" for name, value in asdict(LIGHT).items())
    text = f"{digest} view {view}{' flips' if flips else ''} Distortion({strength})"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
