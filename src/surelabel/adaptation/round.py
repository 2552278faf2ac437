"""An adaptation as the round of a run: its check, its facts, its tables."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from surelabel.adaptation.clustering import Adaptation
from surelabel.adaptation.comparison import Comparison
from surelabel.adaptation.domain_gap import Gap
from surelabel.adaptation.label_partition import Parts
from surelabel.errors import RunError
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import RoundFiles
from surelabel.selftraining.events import RoundFinished
from surelabel.selftraining.inputs import round_inputs_from
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import UNLABELED, FloatArray, no_progress
from surelabel.workflows.certify import certify_run
from surelabel.workflows.label import FolderStore, Listeners, problem_of, write_result


@dataclass(frozen=True)
class Check:
    """What is known before the adapted labels are trusted."""

    gap: Gap
    direct: Comparison
    """Against the nets of the finished run as they are."""
    few: Comparison
    """Against the nearest centroids of the new labels alone."""
    own: Comparison
    """Against the second facet's nets. For the reader: ``holds`` does not ask for it."""

    @property
    def holds(self) -> bool:
        """Better than both."""
        return self.direct.is_better and self.few.is_better


def finished(folder: RunFolder) -> RoundFiles:
    """The last round of a run that has nets and came to its end; answers given since may wait."""
    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(
            f"{folder.path} has no trained nets: a finished run of surelabel label is needed."
        )
    last.verify()
    history = FolderStore(folder).history()
    if stop_reason(history, history[-1].inputs, folder.config) is None:
        raise RunError(f"{folder.path} is not finished: call surelabel resume {folder.path} first.")
    return last


def facts_of(
    found: Adaptation, check: Check, parts: Parts, run1: RunFolder, run2: RunFolder
) -> dict[str, Any]:
    """How the adaptation came to be, in plain values, for the round's metrics."""
    joined, last = found.joined, finished(run2)
    return {
        "run2": str(run2.path.resolve()),
        "run2_weights": {p.name: last.digests()[p.name] for p in last.weights()},
        "run1": str(run1.path.resolve()),
        "k": found.k,
        "right_by_k": {str(k): score for k, score in found.by_k.items()},
        "right_by_removal": list(found.scores),
        "n_centroids": [int((~joined.is_adapted).sum()), int(joined.is_adapted.sum())],
        "n_excluded": int((~joined.kept).sum()),
        "n_labels": {name: len(getattr(parts, name)) for name in ("fit", "decide", "report")},
        "gap": dataclasses.asdict(check.gap),
        "gap_sentence": check.gap.sentence,
        "against_direct": dataclasses.asdict(check.direct),
        "against_few_labels": dataclasses.asdict(check.few),
        "against_facet": dataclasses.asdict(check.own),
        "is_trusted": check.holds,
    }


def write_round(
    folder: RunFolder,
    found: Adaptation,
    latents: FloatArray,
    facts: dict[str, Any],
    check: Check,
    listeners: Listeners,
) -> None:
    """Round 1 of the adapted run, as any round; its labels only if the check holds."""
    from surelabel.adaptation.learner import AdaptedLearner

    with folder.lock():
        problem, store = problem_of(folder), FolderStore(folder)
        learner = AdaptedLearner(found, folder.catalog.ids, latents, facts)
        round_inputs = round_inputs_from(1, problem, None)
        work_folder = store.begin(1)
        outcome = run_round(round_inputs, None, learner, folder.config, work_folder, no_progress)
        outcome = outcome if check.holds else refused(outcome)
        store.commit(outcome)
        certify_run(folder, problem.pool_ids)
        write_result(folder)
    listeners.on_event(RoundFinished(outcome.metrics))


def refused(outcome: RoundOutcome) -> RoundOutcome:
    """The same guesses, none of them accepted."""
    pool = outcome.pool.assign(
        accepted=False, label=UNLABELED, round=0, weight=0.0, threshold=-math.inf
    )
    held_out = outcome.held_out.assign(accepted=False, threshold=-math.inf)
    metrics = dataclasses.replace(
        outcome.metrics,
        n_accepted=0,
        n_left=len(pool),
        n_changed=0,
        threshold=-math.inf,
        n_held_out_accepted=0,
        held_out_accepted_errors=0,
    )
    return RoundOutcome(pool, held_out, metrics)
