"""When self-training ends. Pure: the history of rounds in, a reason or None out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from surelabel.config.choices import Mode
from surelabel.config.settings import Config
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import StopReason


def stop_reason(history: Sequence[RoundMetrics], inputs: str, config: Config) -> StopReason | None:
    """Why the run is over after ``history``, or None when another round is due.

    Only the last rounds with the present ``inputs`` count: new images or labels start the count
    anew, and so does taking them back.
    """
    rounds = list(takewhile(lambda r: r.inputs == inputs, reversed(history)))[::-1]
    if not rounds:
        return None
    last = rounds[-1]
    fewest = _fewest_changes(last.n_pool, config)
    settled = config.mode is Mode.KEEP or last.n_changed < max(1, fewest)
    if last.n_left == 0 and settled:
        return StopReason.POOL_EMPTY
    recent = rounds[-config.stop_after_empty :]
    if len(recent) == config.stop_after_empty and all(r.n_changed == 0 for r in recent):
        return StopReason.NONE_ACCEPTED
    if last.n_changed < fewest:
        return StopReason.FEW_CHANGES
    if len(rounds) >= config.max_rounds:
        return StopReason.ROUND_LIMIT
    return None


def _fewest_changes(n_pool: int, config: Config) -> int:
    """The batch size, as in the paper, but in a small pool at most a hundredth of it."""
    if config.stop_below >= 0:
        return config.stop_below
    if config.mode is Mode.KEEP:
        return config.batch_size
    return min(config.batch_size, n_pool // 100)
