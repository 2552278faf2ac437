"""What all open pages of one server share: queue, training, events, and who views which image."""

from __future__ import annotations

import contextlib
import threading
import time

from surelabel.errors import InputError
from surelabel.messages.guarantees import plan_sentence
from surelabel.review.attention import looks_somewhere
from surelabel.review.browsing import Browsing
from surelabel.review.events import EventHub
from surelabel.review.gallery import Filter
from surelabel.review.guide import Guide
from surelabel.review.queue import ReviewQueue, Task
from surelabel.review.results import CheckResult, result_of_audit, result_of_certification
from surelabel.review.training import Status, TrainingProcess
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify_plan import open_plan

_VIEWING_SECONDS = 60.0


class ReviewSession:
    """One run under review. The queue is computed once and again when a round ends."""

    def __init__(
        self, folder: RunFolder, task: Task, reviewer: str = "", *, guided: bool = False
    ) -> None:
        """With ``guided`` the page leads from images to a finished dataset."""
        self.folder, self.task, self.reviewer = folder, task, reviewer
        self.events = EventHub()
        self.queue = ReviewQueue(folder, task)
        self.trainer = TrainingProcess(folder.path, self._on_status, self.reload)
        self._viewing: dict[str, tuple[str, float]] = {}
        self._preparing: threading.Thread | None = None
        self._lock = threading.Lock()
        self._plan = open_plan(folder) if task.purpose is Purpose.CERTIFY else None
        self.guide = Guide(self) if guided else None
        self.browsing = Browsing(self)

    @property
    def can_train(self) -> bool:
        """Whether the run trains on the answers of this task."""
        return not self.task.blind

    def reload(self) -> None:
        """Read the run again and tell the pages that the queue has changed."""
        self.queue = ReviewQueue(self.folder, self.task)
        self.events.publish("queue")
        self.prepare_gallery()

    def prepare_gallery(self) -> None:
        """Make the gallery in the background, so that nobody waits for it who opens it."""
        if self.queue.can_browse:
            self._preparing = threading.Thread(target=_prepare, args=(self.queue,))
            self._preparing.start()

    def switch(self, task: Task) -> None:
        """Ask about other images from now on."""
        self.task = task
        is_certify = task.purpose is Purpose.CERTIFY
        self._plan = open_plan(RunFolder.open(self.folder.path)) if is_certify else None
        self.reload()

    def set_viewing(self, client: str, item_id: str | None) -> None:
        """Remember which image a page shows, and tell the others."""
        now = time.monotonic()
        with self._lock:
            kept = {
                c: seen for c, seen in self._viewing.items() if seen[1] > now - _VIEWING_SECONDS
            }
            kept.pop(client, None)
            self._viewing = kept if item_id is None else {**kept, client: (item_id, now)}
        self.events.publish("viewing", client=client, id=item_id)

    def viewing(self) -> dict[str, str]:
        """Which image each page showed during the last minute, by client."""
        now = time.monotonic()
        with self._lock:
            return {c: item for c, (item, at) in self._viewing.items() if _is_recent(at, now)}

    def start_training(self) -> Status:
        """Train with the answers so far, unless the run does not train on them."""
        if not self.can_train:
            raise InputError("The run does not train on these answers.")
        if self.guide is not None:
            self.guide.check_trainable()
        return self.trainer.start(self.queue.answers.last_seq())

    def result(self) -> CheckResult:
        """What the answers of a blind check show. Certify answers are used, once all are there."""
        if self.task.purpose is Purpose.AUDIT:
            return result_of_audit(self.folder)
        if self.task.purpose is not Purpose.CERTIFY:
            raise InputError("This task has no result: its answers are labels.")
        result = result_of_certification(self.folder, self.task.ids or ())
        if self._plan is not None:
            self._plan = open_plan(RunFolder.open(self.folder.path))
        elif result.is_final and not self.queue.is_settled:
            self.reload()
        return result

    def state(self) -> dict[str, object]:
        """What a page needs to know at first."""
        queue = self.queue
        return {
            "run": queue.folder.path.resolve().name,
            "path": str(queue.folder.path),
            "purpose": str(queue.task.purpose),
            "blind": queue.task.blind,
            "reveals": queue.task.reveals,
            "first": queue.task.purpose is Purpose.FIRST,
            "guided": self.guide is not None,
            "rounds": queue.n_rounds,
            "reviewer": self.reviewer,
            "attention": looks_somewhere(queue.folder) and not queue.task.blind,
            "can_browse": queue.can_browse,
            "can_train": self.can_train,
            "is_settled": queue.is_settled,
            "has_result": queue.task.purpose in (Purpose.AUDIT, Purpose.CERTIFY),
            "training": self.trainer.status.to_json(),
            "classes": self.class_counts(),
            "certify": self.certify_status(),
        }

    def certify_status(self) -> dict[str, object] | None:
        """What the certify answers show now; None for other tasks, or if all have to be there."""
        if self._plan is None:
            return None
        status = self._plan.status(self.queue.answers.standing(purpose=Purpose.CERTIFY))
        text = plan_sentence(status, len(self._plan.ids))
        return {"text": text, "is_over": status.is_over}

    def class_counts(self) -> list[dict[str, object]]:
        """The classes in order, each with the number of labels by people and by the run."""
        return [{"name": name, **counts} for name, counts in self.queue.counts().items()]

    def close(self) -> None:
        """Stop the training and end the event streams."""
        if self.guide is not None:
            self.guide.close()
        self.browsing.close()
        self.trainer.close()
        self.events.close()
        if self._preparing is not None:
            self._preparing.join()

    def _on_status(self, status: Status) -> None:
        self.events.publish("training", **status.to_json())


def _prepare(queue: ReviewQueue) -> None:
    """Make the gallery and its first list."""
    with contextlib.suppress(Exception):  # whoever asks for it is told
        queue.gallery().listing(Filter())


def _is_recent(at: float, now: float) -> bool:
    return at > now - _VIEWING_SECONDS
