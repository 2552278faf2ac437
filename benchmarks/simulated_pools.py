"""Simulated pools with known labels, to count how often a bound is violated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from surelabel.guarantees.bounds import whole_share
from surelabel.guarantees.certification import (
    CertifySample,
    candidate_thresholds,
    certified_dataset_threshold,
    certified_threshold,
    wrong_images_upper_bound,
)
from surelabel.guarantees.certify_plan import plan_status
from surelabel.guarantees.confidence_sequence import anytime_upper_bound
from surelabel.guarantees.targets import Scope, Target, certify_targets
from surelabel.types import BoolArray, FloatArray, IntArray

#: Of 2,000 bounds at 95 % more than this many are violated in one experiment of a thousand.
MOST_VIOLATED = 131


@dataclass(frozen=True)
class SimulatedPool:
    """A pool: scores, which predictions are wrong, and the sampling unit of each image."""

    scores: FloatArray
    wrong: BoolArray
    units: IntArray

    def draw(self, n_units: int, rng: np.random.Generator) -> CertifySample:
        """Certify images: ``n_units`` whole units, drawn uniformly."""
        chosen = rng.permutation(int(self.units.max()) + 1)[:n_units]
        return CertifySample(self.scores, self.units, np.isin(self.units, chosen), self.wrong)


def informative(n: int, error: float, power: float, rng: np.random.Generator) -> SimulatedPool:
    """Wrong with probability proportional to rank^power, ``error`` on average."""
    rank = (np.arange(n) + 0.5) / n
    chance = np.minimum(1.0, error * (power + 1) * rank**power)
    return SimulatedPool(rank, rng.random(n) < chance, np.arange(n))


def at_the_limit(n: int, max_error: float, rng: np.random.Generator) -> SimulatedPool:
    """Worthless scores, and one wrong image more than is allowed: the hardest pool."""
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.permutation(n)[: int(max_error * n + 1e-9) + 1]] = True
    return SimulatedPool((np.arange(n) + 0.5) / n, wrong, np.arange(n))


def in_groups(n_groups: int, size: int, error: float, rng: np.random.Generator) -> SimulatedPool:
    """Groups of up to ``size`` images that are wrong together."""
    units = np.repeat(np.arange(n_groups), rng.integers(1, size + 1, n_groups))
    bad = rng.random(n_groups) < error
    scores = rng.random(len(units)) + 0.3 * bad[units]
    return SimulatedPool(scores, bad[units], units.astype(np.int64))


def is_violated(
    pool: SimulatedPool, accepted: BoolArray, drawn: BoolArray, max_error: float
) -> bool:
    """Whether more than ``max_error`` of the accepted labels are wrong; drawn images are right."""
    return bool(pool.wrong[accepted & ~drawn].sum() > max_error * accepted.sum() + 1e-9)


@dataclass(frozen=True)
class Tally:
    """Results of many draws."""

    n: int
    violated: int
    refused: int
    coverage: float
    """Mean share of the pool that was accepted."""
    oracle: float
    """The same with all labels known, among the same candidate thresholds."""


def try_thresholds(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    n_certify: int,
    max_error: float,
    n_draws: int,
    seed: int,
    delta: float = 0.05,
) -> Tally:
    """Certify a threshold in ``n_draws`` pools and count the violated targets."""
    rng = np.random.default_rng(seed)
    violated = refused = 0
    coverage, oracle = [], []
    for _ in range(n_draws):
        pool = make(rng)
        sample = pool.draw(n_certify, rng)
        result = certified_threshold(sample, max_error, delta)
        accepted = pool.scores <= result.threshold
        refused += not accepted.any()
        violated += is_violated(pool, accepted, sample.drawn[pool.units], max_error)
        coverage.append(accepted.mean())
        oracle.append(_oracle(pool, max_error))
    return Tally(n_draws, violated, refused, float(np.mean(coverage)), float(np.mean(oracle)))


def try_dataset_thresholds(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    n_certify: int,
    max_error: float,
    n_draws: int,
    seed: int,
    n_classes: int = 0,
) -> Tally:
    """The same for the finished dataset: at most ``max_error`` of all labels of the pool are wrong.

    With ``n_classes`` strata, fixed before the draw as predicted classes are, each of them has the
    target ``max_error`` of its accepted labels besides, and any violated target counts.
    """
    rng = np.random.default_rng(seed)
    violated = refused = 0
    coverage, oracle = [], []
    for _ in range(n_draws):
        pool = make(rng)
        n, allowed = len(pool.scores), whole_share(max_error, len(pool.scores))
        sample = pool.draw(n_certify, rng)
        guess = rng.integers(0, max(1, n_classes), n)
        everything = np.ones(max(1, n_classes), dtype=bool)
        own = np.eye(n_classes, dtype=bool)
        targets = [
            Target("", Scope.DATASET, max_error, everything),
            *(Target(f"{k}", Scope.ACCEPTED, max_error, own[k]) for k in range(n_classes)),
        ]
        results = certify_targets(sample, guess, targets, 0.05, n_labels=n)
        drawn = sample.drawn[pool.units]
        accepted = pool.scores <= results[0].threshold
        broken = bool(pool.wrong[accepted & ~drawn].sum() > allowed)
        for target, result in zip(targets[1:], results[1:], strict=True):
            of_class = target.members[guess] & (pool.scores <= result.threshold)
            broken |= is_violated(pool, of_class, drawn, max_error)
        violated += broken
        refused += not accepted.any()
        coverage.append(accepted.mean())
        wrong = np.cumsum(pool.wrong[np.argsort(pool.scores)])
        oracle.append(float(np.searchsorted(wrong, allowed, side="right")) / n)
    return Tally(n_draws, violated, refused, float(np.mean(coverage)), float(np.mean(oracle)))


def _oracle(pool: SimulatedPool, max_error: float) -> float:
    """The largest coverage of a candidate threshold that keeps the target."""
    order = np.argsort(pool.scores)
    n = np.searchsorted(pool.scores[order], candidate_thresholds(pool.scores), side="right")
    wrong = np.cumsum(pool.wrong[order])[n - 1]
    good = n[wrong <= max_error * n + 1e-9]
    return float(good.max(initial=0)) / len(order)


def try_fixed_thresholds(
    make: Callable[[np.random.Generator], SimulatedPool], *, n_certify: int, n_draws: int, seed: int
) -> int:
    """How often the bound at a fixed threshold is below the truth, at 95 %."""
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_draws):
        pool = make(rng)
        accepted = pool.scores <= 0.7
        most = wrong_images_upper_bound(pool.draw(n_certify, rng), accepted, 0.05)
        violated += bool(pool.wrong[accepted].sum() > most)
    return violated


def try_audits(n_all: int, n_wrong: int, n_checks: int, *, n_draws: int, seed: int) -> int:
    """How often an auditor who reads the bound after every check ever sees it below the truth."""
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_draws):
        wrong = rng.permutation(n_all)[:n_checks] < n_wrong
        violated += bool((anytime_upper_bound(n_all, wrong, 0.05) < n_wrong).any())
    return violated


def bound_by_strata(sizes: IntArray, n_checked: IntArray, n_wrong: IntArray, delta: float) -> int:
    """The anytime bound of an audit with two strata, each checked in its own random order.

    The product of both martingales is one, so pairs of wrong counts are rejected where it passes
    1 / delta; the bound is the largest sum that is not. The priors expect fewer wrong among the
    sure, which is the first stratum.
    """
    from scipy.stats import betabinom, hypergeom

    logs = []
    for n, drawn, wrong, prior in zip(sizes, n_checked, n_wrong, (200, 25), strict=True):
        likelihood = hypergeom.logpmf(wrong, n, np.arange(n + 1), drawn)
        logs.append(betabinom.logpmf(wrong, drawn, 1, prior) - likelihood)
    mode = int(np.argmin(logs[1]))
    rising = np.nan_to_num(logs[1][mode:], posinf=np.inf)
    room = -np.log(delta) - logs[0]
    possible = np.flatnonzero(room > rising[0])
    return int((possible + mode + np.searchsorted(rising, room[possible]) - 1).max())


def try_strata_of_audits(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    n_checks: int,
    sure_shares: tuple[float, ...],
    n_draws: int,
    seed: int,
) -> dict[str, float]:
    """Mean bounds, as shares of the accepted labels, of uniform audits and of two strata.

    The strata are the surer and the other half; ``sure_shares`` of the checks go to the first. Each
    bound is the smallest of ten on the way.
    """
    rng = np.random.default_rng(seed)
    steps = np.linspace(n_checks / 10, n_checks, 10).astype(np.int64)
    bounds: dict[str, list[float]] = {}
    for _ in range(n_draws):
        pool = make(rng)
        n = len(pool.wrong)
        wrong = pool.wrong[np.argsort(pool.scores)]
        checks = wrong[rng.permutation(n)[:n_checks]]
        bounds.setdefault("uniform", []).append(anytime_upper_bound(n, checks, 0.05)[-1] / n)
        halves = [half[rng.permutation(len(half))] for half in np.array_split(wrong, 2)]
        sizes = np.array([len(half) for half in halves])
        for share in sure_shares:
            at = [np.array([round(share * k), k - round(share * k)]) for k in steps.tolist()]
            found = [
                np.array([h[:k].sum() for h, k in zip(halves, drawn, strict=True)]) for drawn in at
            ]
            least = min(
                bound_by_strata(sizes, drawn, each, 0.05)
                for drawn, each in zip(at, found, strict=True)
            )
            name = f"{100 * share:g} % of the checks in the surer half"
            bounds.setdefault(name, []).append(least / n)
    return {name: round(float(np.mean(each)), 4) for name, each in bounds.items()}


@dataclass(frozen=True)
class LooksTally:
    """Results of many certifications by looks."""

    violated: int
    """Pools in which the target was violated after some answer."""
    refused: int
    coverage: float
    asked: float
    """Mean number of images that people were asked about."""
    sampled: float
    """Mean number of images in the sample, asked about or not."""


def with_looks(pool: SimulatedPool, sizes: list[int], rng: np.random.Generator) -> CertifySample:
    """A random order of the units, its first ``sizes`` of them drawn at each look, all checked."""
    order = rng.permutation(int(pool.units.max()) + 1)
    place = np.argsort(order)[pool.units]
    look = np.searchsorted(np.array(sizes), place, side="right") + 1
    looks = np.where(look <= len(sizes), look, 0).astype(np.int64)
    return CertifySample(pool.scores, pool.units, looks > 0, pool.wrong, looks)


def ask_surest_first(
    sample: CertifySample,
    max_error: float,
    *,
    after_answer: Callable[[CertifySample], None] = lambda _: None,
) -> CertifySample:
    """``sample`` with the answers that people are asked for, look by look."""
    asked: BoolArray = np.zeros(len(sample.scores), dtype=bool)
    n_labels = len(sample.scores)
    for look in range(1, sample.n_looks + 1):
        now = replace(sample.up_to(look), checked=asked)
        status = plan_status(now, max_error, 0.05, n_labels=n_labels)
        while not status.is_over:
            asked = asked.copy()
            asked[status.to_ask[0]] = True
            now = replace(now, checked=asked)
            after_answer(now)
            if sample.wrong[status.to_ask[0]] or len(status.to_ask) == 1:
                status = plan_status(now, max_error, 0.05, n_labels=n_labels)
            else:
                status = replace(status, to_ask=status.to_ask[1:])
    return replace(sample, checked=asked)


def try_looks(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    sizes: list[int],
    max_error: float,
    n_draws: int,
    seed: int,
) -> LooksTally:
    """Certify by looks in ``n_draws`` pools, and read the result again and again meanwhile."""
    rng = np.random.default_rng(seed)
    readers = []
    for _ in range(n_draws):
        reader = _Reader(with_looks(make(rng), sizes, rng), max_error)
        reader.answered = ask_surest_first(reader.sample, max_error, after_answer=reader.sometimes)
        reader.read(reader.answered)
        readers.append(reader)
    return LooksTally(
        violated=sum(reader.violated for reader in readers),
        refused=sum(reader.coverage == 0 for reader in readers),
        coverage=float(np.mean([reader.coverage for reader in readers])),
        asked=float(np.mean([reader.answered.checked.sum() for reader in readers])),
        sampled=float(np.mean([reader.sample.checked.sum() for reader in readers])),
    )


class _Reader:
    """Somebody who reads what is certified after every 20th answer, and knows the truth."""

    def __init__(self, sample: CertifySample, max_error: float) -> None:
        self.sample, self.max_error, self.answered = sample, max_error, sample
        self.violated, self.coverage = False, 0.0

    def sometimes(self, now: CertifySample) -> None:
        if now.checked.sum() % 20 == 0:
            self.read(now)

    def read(self, now: CertifySample) -> None:
        n = len(now.scores)
        result = certified_dataset_threshold(now, self.max_error, 0.05, n_labels=n)
        accepted = now.scores <= result.threshold
        by_run = accepted & ~now.up_to(result.look).drawn[now.units]
        self.violated |= bool(now.wrong[by_run].sum() > int(self.max_error * n + 1e-9))
        self.coverage = float(accepted.mean())


def try_naive_stopping(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    sizes: list[int],
    max_error: float,
    n_draws: int,
    seed: int,
) -> int:
    """Violations of somebody who certifies at many sizes as if each had been the only one."""
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_draws):
        pool = make(rng)
        order = rng.permutation(len(pool.scores))
        allowed = int(max_error * len(pool.scores) + 1e-9)
        for n in sizes:
            checked = np.isin(np.arange(len(order)), order[:n])
            sample = CertifySample(pool.scores, pool.units, checked, pool.wrong)
            result = certified_dataset_threshold(sample, max_error, 0.05, n_labels=len(pool.scores))
            accepted = (pool.scores <= result.threshold) & ~checked
            if pool.wrong[accepted].sum() > allowed:
                violated += 1
                break
    return violated
