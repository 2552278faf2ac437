"""The guided page: leads from a folder of images to a finished dataset, for ``surelabel start``.

Every answer about where the run stands comes from ``workflows.journey``. This module only starts
what a step needs: preparation, the task of the queue, an export.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.errors import InputError
from surelabel.export.writers import ExportFormat, default_target, export_run, n_missing_in
from surelabel.messages.guarantees import (
    certification_sentences,
    effort_rows,
    effort_sentence,
)
from surelabel.messages.run import LABEL_SECONDS, error_sentence, headline
from surelabel.review.queue import Task
from surelabel.review.training import Status, TrainingProcess
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import REPORT, RunFolder
from surelabel.types import JsonObject
from surelabel.workflows.certify_labels import answered_to_adopt, ids_to_certify
from surelabel.workflows.certify_plan import open_plan
from surelabel.workflows.effort import effort_of
from surelabel.workflows.first_labels import FIRST_DRAW, lacks_labels
from surelabel.workflows.journey import (
    Journey,
    journey_json,
    plan_by_hand,
    plan_classes,
    plan_folders,
    plan_wish,
)
from surelabel.workflows.label import annotations_of

if TYPE_CHECKING:
    from surelabel.review.session import ReviewSession

FORMATS = {
    ExportFormat.LABELS: "A table of path and label, and nothing else",
    ExportFormat.CSV: "A table with all columns: label, source, uncertainty, reason",
    ExportFormat.PARQUET: "The same table with types, as Parquet",
    ExportFormat.FOLDER: "Copies of the images, one folder per class",
    ExportFormat.HF_FOLDER: "For Hugging Face datasets: images and metadata.parquet",
    ExportFormat.HF_PARQUET: "For Hugging Face datasets: Parquet with the images inside",
    ExportFormat.LABEL_STUDIO: "A Label Studio project with predictions",
    ExportFormat.FIFTYONE: "For FiftyOne: images and labels.json",
    ExportFormat.FIFTYONE_TREE: "For FiftyOne: one folder per class",
    ExportFormat.CVAT: "Labels for CVAT, in a ZIP file",
    ExportFormat.COCO: "COCO's JSON, without boxes",
}


class Asked(StrEnum):
    """What the page asks people about."""

    LABEL = "label"
    """First labels, or after the first round what is left."""
    CHECK = "check"
    """A random sample, blind, for the promise."""


class Guide:
    """The steps of one session."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self._folder = session.folder
        self.preparer = TrainingProcess(self._folder.path, self._on_status, session.reload)

    def begin(self) -> None:
        """Prepare the first training while people look around; follow one that goes on."""
        folder = RunFolder.open(self._folder.path)
        self._session.trainer.follow_another()
        if FIRST_DRAW not in folder.about and lacks_labels(folder):
            self.preparer.prepare()

    def state(self) -> JsonObject:
        """Where the run stands, for the page."""
        journey = Journey(self._folder)
        summary = journey.summary
        return {
            **journey_json(journey),
            "label_seconds": LABEL_SECONDS,
            "headline": headline(summary) if summary.rounds else "",
            "estimate": error_sentence(summary) if summary.rounds else "",
            "promise": certification_sentences(summary) if journey.is_certified else [],
            "training": self._session.trainer.status.to_json(),
            "preparing": self.preparer.status.to_json(),
            "formats": [
                {"name": str(kind), "text": text, "is_file": bool(kind.suffix)}
                for kind, text in FORMATS.items()
            ],
            "has_report": (self._folder.path / REPORT).exists(),
        }

    def effort(self) -> JsonObject:
        """Ways to the finished dataset with their answers and minutes, as text for the page."""
        found = effort_of(RunFolder.open(self._folder.path), LABEL_SECONDS)
        note = "* By a rule of thumb." if any(plan.is_guess for plan in found.plans) else ""
        return {"sentence": effort_sentence(found), "rows": effort_rows(found), "note": note}

    def check_trainable(self) -> None:
        """Refuse training before there are labels to learn from."""
        journey = Journey(self._folder)
        if not journey.can_train:
            raise InputError(
                "Training needs labels of two classes, two of each on average: label some more."
            )
        self.preparer.close()

    def set_classes(self, names: Sequence[str]) -> None:
        """Name the classes."""
        plan_classes(self._folder, names)

    def set_folders(self, are_classes: bool) -> None:
        """Say whether sub-folders are classes."""
        plan_folders(self._folder, are_classes)
        self._session.reload()

    def set_by_hand(self, by_hand: bool) -> None:
        """Say whether people label everything themselves."""
        plan_by_hand(self._folder, by_hand)

    def set_wish(self, max_error: float | None, n: int | None) -> None:
        """Set the share of wrong labels that people can live with."""
        plan_wish(self._folder, max_error, n)

    def describe_wish(self, max_error: float) -> JsonObject:
        """What a wish allows and asks for."""
        if not 0 < max_error < 1:
            raise InputError("A share of wrong labels lies between 0 and 100 %.")
        return Journey(self._folder).describe_wish(max_error)

    def ask(self, what: Asked) -> None:
        """Ask people about other images from now on."""
        session = self._session
        if what is Asked.LABEL:
            task = Task(n_first=len(self._folder.catalog))
        else:
            task = Task(Purpose.CERTIFY, tuple(self._ids_to_check()))
        if task != session.task:
            session.switch(task)

    def _ids_to_check(self) -> list[str]:
        """The images to check next; those of a look that is over until its result was shown."""
        journey = Journey(self._folder)
        wish, plan = journey.wish or {}, open_plan(journey.folder)
        if "n" not in wish:
            raise InputError("Say first how many wrong labels you can live with.")
        if plan is not None and answered_to_adopt(journey.folder, plan):
            answers = journey.folder.answers.standing(purpose=Purpose.CERTIFY)
            if plan.status(answers).is_over:
                return list(plan.draw.drawn)
        return [str(item_id) for item_id in ids_to_certify(journey.folder, int(wish["n"]))]

    def export(self, to: ExportFormat) -> JsonObject:
        """Write the labels to a file or folder beside the terminal's; nothing is overwritten."""
        out = _free(default_target(self._folder.path, to))
        n = export_run(self._folder, annotations_of(self._folder), to, out)
        missing = 0 if to.suffix else n_missing_in(out)
        return {"out": str(out.resolve()), "images": n, "missing": missing}

    def download(self, to: ExportFormat) -> tuple[str, bytes]:
        """The name and content of an export that is one file."""
        if not to.suffix:
            raise InputError(f"{to} is a folder: it is written on the machine that runs surelabel.")
        name = default_target(self._folder.path, to).name
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / name
            export_run(self._folder, annotations_of(self._folder), to, out)
            return name, out.read_bytes()

    def report(self) -> bytes | None:
        """The report of the run as HTML; None if there is none yet."""
        path = self._folder.path / REPORT
        return path.read_bytes() if path.exists() else None

    def close(self) -> None:
        """Stop the preparation."""
        self.preparer.close()

    def _on_status(self, status: Status) -> None:
        self._session.events.publish("preparing", **status.to_json())


def _free(path: Path) -> Path:
    """``path``, or the first of ``NAME-2``, ``NAME-3`` and so on that does not exist."""
    number, free = 2, path
    while free.exists():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free
