"""An adaptation as round 1 of a run: its check, its facts for the metrics, its tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from surelabel.adaptation.clustering import Adaptation
from surelabel.adaptation.comparison import Comparison
from surelabel.adaptation.domain_gap import DomainGap
from surelabel.adaptation.label_partition import LabelPartition
from surelabel.errors import RunError
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import RoundFiles
from surelabel.selftraining.events import RoundFinished
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.round_inputs import round_inputs_from
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import UNLABELED, FloatArray, JsonObject, no_progress
from surelabel.workflows.certify import certify_run
from surelabel.workflows.label import FolderStore, Listeners, write_result
from surelabel.workflows.problem import problem_of


@dataclass(frozen=True)
class AdaptationCheck:
    """What has to be known before the adapted labels are trusted, from the report labels."""

    gap: DomainGap
    direct: Comparison
    """Against net 2 without adaptation (direct inference)."""
    labels_alone: Comparison
    """Against the nearest centroid of the new labels alone."""
    net1: Comparison
    """Against net 1; only for information."""

    @property
    def is_trusted(self) -> bool:
        """Whether adaptation is shown to be better than the first two."""
        return self.direct.is_better and self.labels_alone.is_better


def finished_round(folder: RunFolder) -> RoundFiles:
    """The last round of a finished run with nets; newer answers do not matter."""
    last = folder.last_round()
    if last is None or not last.weights():
        raise RunError(
            f"{folder.path} has no trained nets: give a finished run of surelabel label."
        )
    last.verify()
    history = FolderStore(folder).history()
    if stop_reason(history, history[-1].inputs, folder.config) is None:
        raise RunError(f"{folder.path} is not finished: call surelabel resume {folder.path} first.")
    return last


def adaptation_facts(
    adaptation: Adaptation,
    check: AdaptationCheck,
    partition: LabelPartition,
    classes: Sequence[str],
    run1: RunFolder,
    run2: RunFolder,
) -> JsonObject:
    """How the centroids were chosen and what the check showed, for the round's metrics."""
    centroid_set, last = adaptation.centroid_set, finished_round(run2)
    with_centroid = set(centroid_set.labels[centroid_set.kept].tolist())
    return {
        "run2": str(run2.path.resolve()),
        "run2_weights": {p.name: last.digests()[p.name] for p in last.weights()},
        "run1": str(run1.path.resolve()),
        "k": adaptation.k,
        "right_by_k": {str(k): score for k, score in adaptation.by_k.items()},
        "right_by_removal": list(adaptation.scores),
        "n_centroids": [int((~centroid_set.is_adapted).sum()), int(centroid_set.is_adapted.sum())],
        "n_excluded": int((~centroid_set.kept).sum()),
        "n_labels": {name: len(ids) for name, ids in vars(partition).items()},
        "gap": dataclasses.asdict(check.gap),
        "gap_sentence": check.gap.sentence,
        "against_direct": dataclasses.asdict(check.direct),
        "against_few_labels": dataclasses.asdict(check.labels_alone),
        "against_net1": dataclasses.asdict(check.net1),
        "is_trusted": check.is_trusted,
        "classes_unused": sorted(set(problem_of(run2).classes) - set(classes)),
        "classes_without_centroid": [
            name for k, name in enumerate(classes) if k not in with_centroid
        ],
    }


def write_round(
    folder: RunFolder,
    adaptation: Adaptation,
    latents: FloatArray,
    facts: JsonObject,
    listeners: Listeners,
) -> None:
    """Write round 1 of the adapted run, like any round; its labels only if they are trusted."""
    from surelabel.adaptation.learner import AdaptedLearner

    with folder.lock():
        problem, store = problem_of(folder), FolderStore(folder)
        learner = AdaptedLearner(adaptation, folder.catalog.ids, latents, facts)
        round_inputs = round_inputs_from(1, problem, None)
        work_folder = store.begin(1)
        outcome = run_round(round_inputs, None, learner, folder.config, work_folder, no_progress)
        outcome = outcome if facts["is_trusted"] else without_labels(outcome)
        store.commit(outcome)
        certify_run(folder, problem.pool_ids)
        write_result(folder)
    listeners.on_event(RoundFinished(outcome.metrics))


def without_labels(outcome: RoundOutcome) -> RoundOutcome:
    """The same predictions, none of them accepted."""
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
