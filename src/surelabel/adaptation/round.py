"""An adaptation as round 1 of a run: its check, its facts for the metrics, its tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surelabel.adaptation.comparison import Comparison
from surelabel.adaptation.label_partition import LabelPartition
from surelabel.errors import RunError
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import RoundFiles
from surelabel.selftraining.events import RoundFinished
from surelabel.selftraining.round import run_round
from surelabel.selftraining.round_inputs import round_inputs_from
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import JsonObject, no_progress
from surelabel.workflows.certify import certify_run
from surelabel.workflows.label import FolderStore, Listeners, write_result
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    from surelabel.adaptation.candidates import Evidence
    from surelabel.adaptation.label_curve import CurvePoint


@dataclass(frozen=True)
class AdaptationCheck:
    """How the chosen way does on the report labels, which decided nothing."""

    n_right: Mapping[str, int]
    """By way, among them the chosen one."""
    direct: Comparison
    """Against the old nets without adaptation."""
    labels_alone: Comparison
    """Against the better of the two ways that do without the old dataset."""
    curve: Sequence[CurvePoint]
    """Each way by number of labels, up to all that may be learned from."""


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
    evidence: Evidence,
    check: AdaptationCheck,
    partition: LabelPartition,
    classes: Sequence[str],
    run1: RunFolder,
    run2: RunFolder,
) -> JsonObject:
    """Which way was chosen and why, and what the check showed, for the round's metrics."""
    choice, clustering, last = evidence.choice, evidence.clustering, finished_round(run2)
    centroid_set = clustering.centroid_set
    weights = dict(zip((c.name for c in choice.candidates), choice.weights.tolist(), strict=True))
    return {
        "run2": str(run2.path.resolve()),
        "run2_weights": {p.name: last.digests()[p.name] for p in last.weights()},
        "run_alone": str(run1.path.resolve()),
        "chosen": choice.name,
        "by_rule": choice.by_rule,
        "alone": evidence.alone,
        "ways": [
            {
                "name": name,
                "loss": loss,
                "weight": weights.get(name, 0.0),
                "n_right": check.n_right.get(name),
            }
            for name, loss in choice.losses.items()
        ],
        "n_labels": {name: len(ids) for name, ids in vars(partition).items()},
        "gap": dataclasses.asdict(evidence.gap),
        "gap_sentence": evidence.gap.sentence,
        "against_direct": dataclasses.asdict(check.direct),
        "against_labels_alone": dataclasses.asdict(check.labels_alone),
        "curve": [dataclasses.asdict(point) for point in check.curve],
        "classes_unused": sorted(set(problem_of(run2).classes) - set(classes)),
        "clustering": {
            "k": clustering.k,
            "right_by_k": {str(k): score for k, score in clustering.by_k.items()},
            "right_by_removal": list(clustering.scores),
            "n_centroids": [
                int((~centroid_set.is_adapted).sum()),
                int(centroid_set.is_adapted.sum()),
            ],
            "n_excluded": int((~centroid_set.kept).sum()),
        },
    }


def write_round(
    folder: RunFolder, evidence: Evidence, facts: JsonObject, listeners: Listeners
) -> None:
    """Write round 1 of the adapted run, like any round."""
    from surelabel.adaptation.learner import AdaptedLearner

    with folder.lock():
        problem, store = problem_of(folder), FolderStore(folder)
        learner = AdaptedLearner(evidence, folder.catalog.ids, facts)
        round_inputs = round_inputs_from(1, problem, None)
        work_folder = store.begin(1)
        outcome = run_round(round_inputs, None, learner, folder.config, work_folder, no_progress)
        store.commit(outcome)
        certify_run(folder, problem.pool_ids)
        write_result(folder)
    listeners.on_event(RoundFinished(outcome.metrics))
