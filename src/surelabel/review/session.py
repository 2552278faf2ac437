"""What all pages of one server share: the queue, who looks at what, the training, the news."""

from __future__ import annotations

import threading
import time
from typing import Any

from surelabel.errors import InputError
from surelabel.review.events import Hub
from surelabel.review.queue import ReviewQueue, Task
from surelabel.review.training import Status, Trainer
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder

_LOOKING_SECONDS = 60.0


class ReviewSession:
    """One run under review. Its queue is renewed when a round ends."""

    def __init__(self, folder: RunFolder, task: Task, reviewer: str = "") -> None:
        self.folder, self.task, self.reviewer = folder, task, reviewer
        self.hub = Hub()
        self.queue = ReviewQueue(folder, task)
        self.trainer = Trainer(folder.path, self._on_status, self.renew)
        self._looking: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    @property
    def can_train(self) -> bool:
        """Whether the answers of this task are for learning."""
        return not self.task.blind

    def renew(self) -> None:
        """Read the run again, and tell the pages that other images are left."""
        self.queue = ReviewQueue(self.folder, self.task)
        self.hub.publish("queue")

    def look(self, client: str, item_id: str | None) -> None:
        """Remember which image a page shows, and tell the others."""
        with self._lock:
            self._looking.pop(client, None)
            if item_id is not None:
                self._looking[client] = (item_id, time.monotonic())
        self.hub.publish("looking", client=client, id=item_id)

    def looking(self) -> dict[str, str]:
        """Which image each page showed during the last minute, by client."""
        earliest = time.monotonic() - _LOOKING_SECONDS
        with self._lock:
            return {client: item for client, (item, at) in self._looking.items() if at > earliest}

    def start_training(self) -> dict[str, Any]:
        """Train with the answers so far, unless they are not for learning."""
        if not self.can_train:
            raise InputError("Nothing is learned from these answers, so there is nothing to train.")
        return self.trainer.start(self.queue.store.last_seq()).to_json()

    def state(self) -> dict[str, Any]:
        """What a page needs to know at first."""
        queue = self.queue
        return {
            "run": queue.folder.path.resolve().name,
            "path": str(queue.folder.path),
            "purpose": str(queue.task.purpose),
            "blind": queue.task.blind,
            "reveals": queue.task.reveals,
            "first": queue.task.purpose is Purpose.FIRST,
            "rounds": queue.n_rounds,
            "reviewer": self.reviewer,
            "can_train": self.can_train,
            "training": self.trainer.status.to_json(),
            **self.counts(),
        }

    def counts(self) -> dict[str, Any]:
        """The classes in order, with the labels that people and the run gave."""
        counts = self.queue.counts()
        return {"classes": [{"name": name, **of} for name, of in counts.items()]}

    def close(self) -> None:
        """End the training and the streams."""
        self.trainer.close()
        self.hub.close()

    def _on_status(self, status: Status) -> None:
        self.hub.publish("training", **status.to_json())
