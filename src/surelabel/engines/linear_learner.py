"""The learner for frozen features: Bayesian linear heads, cross-fitted, with a neighbor vote.

A round fits six heads: one for each of five folds, trained without it, and one on all labels. The
five predict the labels they have not seen; these predictions choose layers, prior, scale of the
posterior and neighbor vote, and set thresholds. The sixth labels the pool. Everything takes
seconds, so a killed round simply starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn import functional

from surelabel.config.settings import Config
from surelabel.engines.cross_fitting import folds_of
from surelabel.engines.feature_space import (
    FeatureSpace,
    Normalization,
    feature_space,
    mean_and_deviation,
    mean_and_own_deviation,
)
from surelabel.engines.inputs import HeadInputs
from surelabel.engines.linear_model import (
    MAX_INDEXED,
    N_FOLDS,
    PART,
    LinearEnsemble,
    LinearModel,
    NeighborIndex,
    digests_of,
    load_linear,
    places_of,
    save_linear,
)
from surelabel.engines.storage import (
    Facts,
    reference_path,
    save_reference,
    weights_path,
)
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.models.linear_head import (
    LinearHead,
    fit_head,
    laplace_posterior,
)
from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature
from surelabel.selection.out_of_distribution import ReferenceFeatures
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import (
    FloatArray,
    Ids,
    IntArray,
    OnProgress,
    Progress,
    derive_seed,
    no_progress,
)

_PRECISIONS = tuple(float(10 ** (-0.5 * k)) for k in range(1, 11))
"""Of the prior, the strongest first."""
_WIDE_PRECISIONS = tuple(10.0**k for k in range(1, -6, -1))
"""The same for features of any kind: few columns may all mean something, or none."""
_SCALES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Of the posterior's deviations. With fewer labels than inputs the Laplace posterior is far too
wide where no label was seen."""
_VOTES = (0.0, 0.15, 0.3, 0.5, 0.7)
"""How much of a prediction is the neighbors'."""
_SAMPLE = 4000
"""Images from which the mean and deviation of the features are computed."""
_LANDMARKS = (1000, 2048)
"""Fewest and most images that span the space of the heads."""
_MAX_CHOOSING = 1500
"""Labels by which layers and normalization are chosen; the prior is chosen by all."""
_MAX_PSEUDO = 5000
"""Pseudo-labels that a head learns from: a linear head has no use for more."""
_DEEPEST = 2
"""Layers with up to this many after them are always used."""
_SMALLEST_PROBABILITY = 1e-12


class LinearLearner:
    """Fits the heads of each round to the features of one catalog."""

    def __init__(self, config: Config, features: HeadInputs) -> None:
        self.config = config
        self.features = features

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> LinearEnsemble:
        """Fit the heads; those of the round before stay where held-out labels prefer them.

        NumPy works with one thread meanwhile: while its threads wait for work they take the
        processor from PyTorch's, and with two of each the fit takes fifteen times as long.
        """
        with threadpool_limits(limits=1, user_api="blas"):
            return self._train(round_inputs, work_folder, on_progress)

    def _train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress
    ) -> LinearEnsemble:
        earlier = None
        if round_inputs.previous_round is not None:
            path = weights_path(round_inputs.previous_round, 0)
            if path.exists():
                earlier = load_linear(path, self.config, self.features)
        fitting = _Fitting(round_inputs, self.features, self.config, on_progress)
        if earlier is None:
            ensemble = fitting.first()
        else:
            ensemble = fitting.next(earlier)
            gains = earlier.model.losses - ensemble.model.losses
            if self.config.roll_back and not is_clear_gain(gains):
                ensemble = replace(earlier, facts={**earlier.facts, "rolled_back": True})
        path = weights_path(work_folder, 0)
        save_linear(path, ensemble)
        if self.config.out_of_distribution:
            labeled = ensemble.latents(round_inputs.problem.human_ids)
            reference = ReferenceFeatures(labeled, (labeled.shape[1],))
            save_reference(reference_path(path), reference)
        return load_linear(path, self.config, self.features)

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> None:
        """None: the neighbors' vote is part of a head's prediction."""


@dataclass(frozen=True)
class _PoolGuesses:
    """What the heads of the folds guess for the images of the pool."""

    sure: Tensor
    """(folds, N) the probability of the guess."""
    guess: Tensor
    earlier: LinearEnsemble
    ids: Ids
    kept: Tensor | None

    def places(self, rows: Tensor) -> Tensor:
        """(M, R) the inputs of the heads for some of the images."""
        if self.kept is not None:
            return self.kept[rows]
        return self.earlier.latents_tensor(self.ids[rows.numpy()])


@dataclass(frozen=True)
class _Fitting:
    """One round's choice of space, prior, posterior and vote, by cross-fitted predictions."""

    round_inputs: RoundInputs
    features: HeadInputs
    config: Config
    on_progress: OnProgress

    def first(self) -> LinearEnsemble:
        """From human labels alone."""
        problem = self.round_inputs.problem
        layers = self.features.layers
        sample = self._drawn("statistics", self.features.catalog.ids, _SAMPLE)
        given = self.features.lengths_matter
        statistics = mean_and_own_deviation if given else mean_and_deviation
        mean, deviation = statistics(self._stored(sample))
        depths = [d for d in sorted(set(layers.depths)) if d >= min(_DEEPEST, max(layers.depths))]
        plain = [Normalization(layers, depth, mean, torch.ones_like(mean)) for depth in depths]
        landmarks = self._landmarks()
        some = self._drawn("choosing", np.arange(len(problem.human_ids)), _MAX_CHOOSING)
        best = self._best(plain, landmarks, some)
        others = [replace(best.space.normalization, deviation=deviation)]
        if given:
            whole = torch.full_like(deviation, float(deviation.square().mean().sqrt()))
            others += [
                replace(others[0], deviation=each, unit_length=False) for each in (deviation, whole)
            ]
        other = self._best(others, landmarks, some)
        best = other if other.loss < best.loss else best
        if len(some) < len(problem.human_ids):
            everything = np.arange(len(problem.human_ids))
            best = self._best([best.space.normalization], landmarks, everything)
        human = places_of(best.space, self.features, problem.human_ids)
        labels = torch.from_numpy(problem.human_labels)
        final = fit_head(human, labels, len(problem.classes), best.precision)
        folds = self._folds()
        kept = [human[folds != k] for k in range(N_FOLDS + 1)]
        trained = [(inputs, torch.ones(len(inputs))) for inputs in kept]
        heads = (*best.heads, final)
        return self._finish(best.space, heads, best.precision, self._index(best.space), trained)

    def next(self, earlier: LinearEnsemble) -> LinearEnsemble:
        """From human labels and the pseudo-labels that the round before accepted.

        The head of a fold learns from its own guesses, the ones it is surest of: what the others
        guess, and which images they accept, would tell it the labels that it must not know.
        """
        model, inputs, problem = earlier.model, self.round_inputs, self.round_inputs.problem
        guessed = self._guesses_of_folds(earlier)
        human = earlier.latents_tensor(problem.human_ids)
        labels, folds = torch.from_numpy(problem.human_labels), self._folds()
        weights = torch.from_numpy(inputs.pseudo_weights).float()
        accepted = self._pool_places(inputs.pseudo_ids)
        heads, trained = [], []
        for k in range(N_FOLDS + 1):
            rows, guess, counts = accepted, torch.from_numpy(inputs.pseudo_labels), weights
            if k < N_FOLDS:
                sure, guesses = guessed.sure[k], guessed.guess[k]
                rows = sure.argsort(descending=True, stable=True)[: len(weights)]
                guess, counts = guesses[rows], weights.sort(descending=True).values
            chosen = torch.from_numpy(self._drawn("pseudo", np.arange(len(rows)), _MAX_PSEUDO))
            rows, guess = rows[chosen], guess[chosen]
            counts = self._limited(counts[chosen])
            kept = folds != k
            learned = torch.cat([human[kept], guessed.places(rows)])
            weighted = torch.cat([torch.ones(int(kept.sum())), counts])
            trained.append((learned, weighted))
            heads.append(
                fit_head(
                    learned,
                    torch.cat([labels[kept], guess]),
                    len(problem.classes),
                    model.precision,
                    weights=weighted,
                    start=model.heads[k],
                )
            )
            self._report(k + 1, N_FOLDS + 1)
        return self._finish(model.space, tuple(heads), model.precision, model.index, trained)

    def _guesses_of_folds(self, earlier: LinearEnsemble) -> _PoolGuesses:
        """What the head of each fold guesses for the pool, part by part."""
        model, ids = earlier.model, self.round_inputs.problem.pool_ids
        kind = np.float64 if model.space.basis.dtype is torch.float64 else np.float32
        sure = torch.from_numpy(zeros((N_FOLDS, len(ids)), kind))
        guess = torch.from_numpy(zeros((N_FOLDS, len(ids)), np.int64))
        places = torch.zeros(0, model.space.basis.shape[1])
        for part, places in earlier.latents_in_parts(ids, self.on_progress):
            digests = digests_of(self.features, ids[part])
            neighbors = model.index.neighbors(places, digests) if model.vote else None
            for k in range(N_FOLDS):
                sure[k, part], guess[k, part] = model.modes(places, neighbors, k).max(1)
        # The places of a small pool are kept as they were computed, to the last bit.
        kept = places if len(places) == len(ids) else None
        return _PoolGuesses(sure, guess, earlier, ids, kept)

    def _pool_places(self, ids: Ids) -> Tensor:
        """(M,) where ``ids`` are in the pool."""
        pool = self.features.rows(self.round_inputs.problem.pool_ids)
        known, order = pool.sort()
        return order[torch.searchsorted(known, self.features.rows(ids))]

    def _best(
        self, normalizations: Sequence[Normalization], landmarks: Ids, some: IntArray
    ) -> Candidate:
        """The one whose heads predict unseen labels best; ``some`` are the labels to ask."""
        problem = self.round_inputs.problem
        stored, own = self._stored(landmarks), self._stored(problem.human_ids[some])
        labels, folds = torch.from_numpy(problem.human_labels[some]), self._folds()[some]
        n_directions = max(_LANDMARKS[0], len(landmarks)) // 2
        found = []
        for number, normalization in enumerate(normalizations):
            space = feature_space(normalization, stored, n_directions)
            given = self.features.lengths_matter
            precisions = _WIDE_PRECISIONS if given else _PRECISIONS
            n_classes = len(problem.classes)
            found.append(best_prior(space, space(own), labels, folds, n_classes, precisions))
            self._report(number + 1, len(normalizations))
        return min(found, key=lambda each: each.loss)

    def _finish(
        self,
        space: FeatureSpace,
        heads: tuple[LinearHead, ...],
        precision: float,
        index: NeighborIndex,
        trained: Sequence[tuple[Tensor, Tensor]],
    ) -> LinearEnsemble:
        """Choose the posterior's scale and the vote.

        ``trained`` has for each head the inputs that it was fitted to, and their weights.
        """
        human = places_of(space, self.features, self.round_inputs.problem.human_ids)
        posteriors = [
            laplace_posterior(head, inputs, precision, weights=weights)
            for head, (inputs, weights) in zip(heads, trained, strict=True)
        ]
        seed = derive_seed(self.config.seed, self.round_inputs.number, "heads")
        model = LinearModel(
            space,
            heads,
            precision,
            scale=0.0,
            vote=0.0,
            index=index,
            posteriors=tuple(posteriors),
            seed=seed,
            n_samples=self.config.mc_samples,
            losses=np.empty(0),
        )
        model = self._with_scale_and_vote(model, human)
        facts = self._facts(model, len(trained[-1][0]))
        return LinearEnsemble(model, self.features, self.config, facts)

    def _with_scale_and_vote(self, model: LinearModel, human: Tensor) -> LinearModel:
        """Both by the loss of the labels, each predicted by the head that did not see it."""
        problem, folds = self.round_inputs.problem, self._folds()
        labels = torch.from_numpy(problem.human_labels)
        digests = digests_of(self.features, problem.human_ids)
        scales = _SCALES if model.n_samples > 1 else (0.0,)
        own = {scale: torch.zeros(len(labels), len(problem.classes)) for scale in scales}
        votes = torch.zeros(len(labels), len(problem.classes))
        for k in range(N_FOLDS):
            out = folds == k
            if not out.any():
                continue
            votes[out] = model.votes(model.index.neighbors(human[out], digests[out]), k)
            for scale in scales:
                drawn = [head.probabilities(human[out]) for head in model.samples(k, scale)]
                own[scale][out] = torch.stack(drawn).mean(0)
        by_scale = {scale: _losses(p, labels) for scale, p in own.items()}
        scale = min(by_scale, key=lambda each: by_scale[each].mean())
        shares = _VOTES if self.config.neighbor_vote else (0.0,)
        mixed = {share: (1 - share) * own[scale] + share * votes for share in shares}
        by_share = {share: _losses(p, labels) for share, p in mixed.items()}
        vote = min(by_share, key=lambda each: by_share[each].mean())
        return replace(model, scale=scale, vote=vote, losses=by_share[vote])

    def _facts(self, model: LinearModel, n_trained: int) -> Facts:
        normalization = model.space.normalization
        return {
            "head": "linear",
            "layers": len(normalization.layers.up_to(normalization.depth)),
            "standardized": bool((normalization.deviation != 1).any()),
            "precision": model.precision,
            "posterior_scale": model.scale,
            "neighbor_vote": model.vote,
            "cross_fitted_loss": float(model.losses.mean()),
            "n_trained": n_trained,
            "parameters": model.heads[-1].weights.numel() + model.heads[-1].bias.numel(),
            "backbone": self.features.digest,
        }

    def _limited(self, weights: Tensor) -> Tensor:
        """(M,) weights of pseudo-labels that leave the people's labels their ``human_share``."""
        least, n_human = self.config.human_share, len(self.round_inputs.problem.human_ids)
        if not least or not len(weights):
            return weights
        most = n_human * (1 - least) / least
        return weights * min(1.0, most / max(float(weights.sum()), 1e-12))

    def _landmarks(self) -> Ids:
        """Labeled images, at most three quarters of all, and random ones of the pool."""
        problem = self.round_inputs.problem
        fewest, most = _LANDMARKS
        n = min(most, max(fewest, 2 * len(problem.human_ids)))
        human = self._drawn("labeled landmarks", problem.human_ids, 3 * n // 4)
        return np.concatenate([human, self._drawn("landmarks", problem.pool_ids, n - len(human))])

    def _stored(self, ids: Ids) -> Tensor:
        return self.features.pixels(self.features.rows(ids))

    def _index(self, space: FeatureSpace) -> NeighborIndex:
        ids = self._drawn("neighbors", self.features.catalog.ids, MAX_INDEXED)
        parts = [
            places_of(space, self.features, ids[part], self.on_progress).half()
            for part in slices(len(ids), PART)
        ]
        return NeighborIndex(torch.cat(parts), digests_of(self.features, ids))

    def _folds(self) -> Tensor:
        problem, seed = self.round_inputs.problem, self.config.seed
        return torch.from_numpy(folds_of(problem, self.features.catalog, N_FOLDS, seed))

    def _drawn(self, name: str, values: Any, n: int) -> Any:
        """All ``values``, or ``n`` of them at random, in their order."""
        rng = np.random.default_rng(derive_seed(self.config.seed, name))
        return values[np.sort(rng.permutation(len(values))[:n])]

    def _report(self, done: int, total: int) -> None:
        self.on_progress(Progress("fitting heads", done, total))


@dataclass(frozen=True)
class Candidate:
    """One normalization with its best prior."""

    space: FeatureSpace
    heads: tuple[LinearHead, ...]
    """One for each fold."""
    precision: float
    loss: float


def best_prior(
    space: FeatureSpace,
    inputs: Tensor,
    labels: Tensor,
    folds: Tensor,
    n_classes: int,
    precisions: Sequence[float] = _PRECISIONS,
) -> Candidate:
    """From the strongest prior on, until the loss of labels left out has risen twice."""
    heads: list[LinearHead | None] = [None] * N_FOLDS
    best: Candidate | None = None
    n_worse = 0
    for precision in precisions:
        p = torch.zeros(len(labels), n_classes)
        for k in range(N_FOLDS):
            out = folds == k
            head = fit_head(inputs[~out], labels[~out], n_classes, precision, start=heads[k])
            heads[k], p[out] = head, head.probabilities(inputs[out])
        loss = float(functional.nll_loss(p.clamp(min=_SMALLEST_PROBABILITY).log(), labels))
        if best is None or loss < best.loss:
            fitted = tuple(head for head in heads if head is not None)
            best, n_worse = Candidate(space, fitted, precision, loss), 0
        else:
            n_worse += 1
            if n_worse == 2:
                break
    assert best is not None
    return best


def _losses(probabilities: Tensor, labels: Tensor) -> FloatArray:
    """(N,) -ln p of the labels at the best temperature: being surer is no merit by itself."""
    return losses_at_best_temperature(probabilities.double().numpy(), labels.numpy())
