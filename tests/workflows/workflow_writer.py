"""A program that answers without end: it prints each answer once it is on disk.

Called with the file of answers, the kind, and the ids to answer about in turn.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from surelabel.runs.answers import AnswerStore


def main(path: Path, kind: str, ids: list[str]) -> None:
    while not path.exists():
        time.sleep(0.01)
    store = AnswerStore(path)
    for n, item in enumerate(itertools.cycle(ids)):
        label = ("across", "down")[n // len(ids) % 2] if kind == "label" else None
        seq = store.add(item, kind, label, reviewer=f"writer {n}")
        print(seq, item, label, flush=True)
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
