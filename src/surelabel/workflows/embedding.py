"""Where the images of a run lie: vectors from the nets of its last round, and a map of them.

The vectors are the principal components of what the nets compute of an image before they decide.
The map is t-SNE (van der Maaten and Hinton, 2008) of at most ``MAX_LANDMARKS`` images, drawn at
random. Each other image is placed between the three landmarks most similar to it: that is fast
and shows where it belongs, but a group without a landmark of its own is not seen as a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.pixels import restore_pixels
from surelabel.errors import RunError
from surelabel.runs.embedding import (
    Embedding,
    embedding_key,
    has_current_embedding,
    read_embedding,
)
from surelabel.runs.folder import RunFolder
from surelabel.types import FloatArray, IntArray, OnProgress, Progress, derive_seed, no_progress
from surelabel.workflows.label import as_recorded
from surelabel.workflows.model_inputs import open_inputs

if TYPE_CHECKING:
    from surelabel.engines.ensemble import Ensemble
    from surelabel.engines.linear_model import LinearEnsemble

MAX_LANDMARKS = 4000
_N_COMPONENTS = 64
_N_FITTED = 5000
"""Images that the principal components are fitted to."""
_CHUNK = 1024
_N_NEAREST = 3
_PERPLEXITY = 30.0


def embed(
    folder: RunFolder, on_progress: OnProgress = no_progress, *, with_map: bool = True
) -> Embedding:
    """The vectors of all images of a run and, ``with_map``, their places; both are stored.

    What is there already is not computed again.
    """
    known = read_embedding(folder)
    if known is None or not has_current_embedding(folder, known):
        known = Embedding(
            ids=folder.catalog.ids,
            vectors=_vectors(folder, on_progress),
            xy=None,
            n_landmarks=0,
            key=embedding_key(folder),
        )
        known.save(folder)
    if with_map and known.xy is None:
        xy, n_landmarks = place(known.vectors, folder.config.seed, on_progress)
        known = Embedding(known.ids, known.vectors, xy, n_landmarks, known.key)
        known.save(folder)
    return known


def _vectors(folder: RunFolder, on_progress: OnProgress) -> npt.NDArray[np.float16]:
    """(N, R) unit vectors, in the order of the catalog."""
    nets, catalog = _load(folder, on_progress), folder.catalog
    rng = np.random.default_rng(derive_seed(folder.config.seed, "principal components"))
    some = np.sort(rng.permutation(len(catalog))[:_N_FITTED])
    mean, basis = principal_components(nets.latents(catalog.ids[some]), _N_COMPONENTS)
    parts = []
    for start in range(0, len(catalog), _CHUNK):
        latents = nets.latents(catalog.ids[start : start + _CHUNK])
        parts.append(unit_vectors((latents - mean) @ basis).astype(np.float16))
        on_progress(Progress("comparing images", start + len(latents), len(catalog)))
    return np.concatenate(parts)


def _load(folder: RunFolder, on_progress: OnProgress) -> Ensemble | LinearEnsemble:
    from surelabel.engines.device import prepare
    from surelabel.engines.ensemble import load_round

    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(
            f"{folder.path} has no nets of its own yet, so it is not known which images are "
            f"similar: call surelabel resume {folder.path} first."
        )
    last.verify()
    prepare(as_recorded(folder))
    config, catalog, cache = folder.config, folder.catalog, cache_folder(folder.config.cache)
    store = restore_pixels(catalog, cache=cache, images=None, on_progress=on_progress)
    inputs = open_inputs(config, catalog, store, on_progress)
    return load_round(last.weights(), last.number, config, inputs)


def principal_components(rows: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """The mean (D,) of ``rows`` (M, D), and a basis (D, R) of the up to ``n`` widest directions."""
    from sklearn.decomposition import PCA

    n = min(n, *rows.shape)
    found = PCA(n, svd_solver="randomized", random_state=0).fit(rows.astype(np.float32))
    return found.mean_, found.components_.T


def unit_vectors(rows: FloatArray) -> FloatArray:
    """``rows`` (M, R), each divided by its length; zeros stay zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors: FloatArray = rows / np.maximum(lengths, 1e-12)
    return vectors


def place(
    vectors: FloatArray, seed: int, on_progress: OnProgress = no_progress
) -> tuple[FloatArray, int]:
    """(N, 2) places on a map, from -1 to 1, and the number of images that t-SNE placed."""
    n = len(vectors)
    rng = np.random.default_rng(derive_seed(seed, "map"))
    landmarks = np.sort(rng.permutation(n)[:MAX_LANDMARKS]).astype(np.int64)
    on_progress(Progress("drawing the map", 0, n))
    fixed = _tsne(vectors[landmarks].astype(np.float32))
    on_progress(Progress("drawing the map", len(landmarks), n))
    xy = np.empty((n, 2), dtype=np.float32)
    for start in range(0, n, _CHUNK):
        part = slice(start, start + _CHUNK)
        xy[part] = _between(vectors[part].astype(np.float32), vectors[landmarks], fixed)
        on_progress(Progress("drawing the map", min(start + _CHUNK, n), n))
    xy[landmarks] = fixed
    xy -= (xy.max(axis=0) + xy.min(axis=0)) / 2
    return xy / max(float(np.abs(xy).max()), 1e-12), len(landmarks)


def _tsne(vectors: FloatArray) -> FloatArray:
    from sklearn.manifold import TSNE

    n = len(vectors)
    if n < 4:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        return np.stack([line, np.zeros(n)], axis=1)
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    found: FloatArray = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(
        vectors
    )
    return found


def _between(vectors: FloatArray, landmarks: FloatArray, fixed: FloatArray) -> FloatArray:
    """(M, 2) the mean place of the landmarks nearest to each image, the nearer the heavier."""
    similarity = vectors @ landmarks.astype(np.float32).T
    k = min(_N_NEAREST, similarity.shape[1])
    nearest: IntArray = np.argpartition(-similarity, k - 1, axis=1)[:, :k].astype(np.int64)
    distance = 1 - np.take_along_axis(similarity, nearest, axis=1)
    weights = 1 / np.maximum(distance, 1e-4) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    placed: FloatArray = (weights[:, :, None] * fixed[nearest]).sum(axis=1)
    return placed
