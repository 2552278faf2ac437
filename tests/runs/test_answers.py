from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from surelabel.errors import RunDamagedError, RunError
from surelabel.runs.answers import AnswerConflictError, AnswerKind, AnswerStore, NewAnswer, Purpose

ADD = """
import sys
from pathlib import Path
from surelabel.runs.answers import AnswerStore
store = AnswerStore(Path(sys.argv[1]))
who, count = sys.argv[2], int(sys.argv[3])
for n in range(count):
    seq = store.add(f"{who}-{n}", "label", "cat", reviewer=who)
    print(seq, f"{who}-{n}", flush=True)
"""


@pytest.fixture(name="store")
def fixture_store(tmp_path: Path) -> AnswerStore:
    return AnswerStore.create(tmp_path / "answers.sqlite")


def start(store: AnswerStore, who: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADD, str(store.path), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def standing_label(store: AnswerStore, item_id: str = "i") -> str | None:
    answer = store.standing().get(item_id)
    return answer.label if answer else None


def test_the_newest_answer_stands(store: AnswerStore) -> None:
    first = store.add("i", "label", "cat", reviewer="ann")
    second = store.add("i", AnswerKind.LABEL, "dog")
    assert second > first
    assert standing_label(store) == "dog"
    assert [answer.label for answer in store.history("i")] == ["cat", "dog"]
    assert store.history("i")[0].reviewer == "ann"
    assert store.last_seq() == second


def test_an_empty_store(store: AnswerStore) -> None:
    assert store.last_seq() == 0
    assert store.standing() == {}
    assert store.history("i") == []


@pytest.mark.parametrize("kind", ["none", "unsure"])
def test_answers_without_a_class(store: AnswerStore, kind: str) -> None:
    store.add("i", kind)
    assert store.standing()["i"].kind == kind
    assert store.standing()["i"].label is None


def test_undo_can_be_repeated(store: AnswerStore) -> None:
    store.add("i", "label", "cat")
    store.add("other", "label", "cow")
    store.add("i", "label", "dog")
    store.add("i", "undo")
    assert standing_label(store) == "cat"
    store.add("i", "undo")
    assert standing_label(store) is None
    with pytest.raises(RunError, match=r"^i "):
        store.add("i", "undo")
    assert standing_label(store, "other") == "cow"
    assert len(store.history("i")) == 4


def test_an_answer_after_an_undo_stands(store: AnswerStore) -> None:
    store.add("i", "label", "cat")
    store.add("i", "undo")
    store.add("i", "label", "dog")
    assert standing_label(store) == "dog"
    store.add("i", "undo")
    assert standing_label(store) is None


def test_the_past_can_be_read_again(store: AnswerStore) -> None:
    first = store.add("i", "label", "cat")
    store.add("i", "label", "dog")
    last = store.add("i", "undo")
    assert store.standing(upto=0) == {}
    assert store.standing(upto=first)["i"].label == "cat"
    assert store.standing(upto=first + 1)["i"].label == "dog"
    assert store.standing(upto=last) == store.standing()


def test_a_second_reviewer_does_not_overwrite_silently(store: AnswerStore) -> None:
    store.add("i", "label", "cat", reviewer="ann", expected_seq=0)
    with pytest.raises(AnswerConflictError, match="ann") as caught:
        store.add("i", "label", "dog", reviewer="bob", expected_seq=0)
    assert caught.value.standing is not None
    assert caught.value.standing.label == "cat"
    store.add("i", "label", "dog", expected_seq=caught.value.standing.seq)
    assert standing_label(store) == "dog"


def test_a_conflict_with_an_answer_that_was_taken_back(store: AnswerStore) -> None:
    seq = store.add("i", "label", "cat")
    store.add("i", "undo", expected_seq=seq)
    with pytest.raises(AnswerConflictError, match=r"^i ") as caught:
        store.add("i", "undo", expected_seq=seq)
    assert caught.value.standing is None


@pytest.mark.parametrize(("kind", "label"), [("label", None), ("label", ""), ("none", "cat")])
def test_a_label_belongs_to_the_kind_label_only(
    store: AnswerStore, kind: str, label: str | None
) -> None:
    with pytest.raises(ValueError, match="label"):
        store.add("i", kind, label)
    assert store.last_seq() == 0


def test_the_history_cannot_be_changed(store: AnswerStore) -> None:
    store.add("i", "label", "cat")
    connection = sqlite3.connect(store.path)
    for statement in ("DELETE FROM answers", "UPDATE answers SET label = 'dog'"):
        with pytest.raises(sqlite3.IntegrityError, match="answers are never"):
            connection.execute(statement)
    connection.close()
    assert standing_label(store) == "cat"


def test_it_is_durable_by_its_settings(store: AnswerStore) -> None:
    with store._writer.use() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_killed_while_adding_no_acknowledged_answer_is_lost(store: AnswerStore) -> None:
    acknowledged: list[str] = []
    for number, after in enumerate((0.05, 0.1, 0.2)):
        with start(store, f"killed{number}", 10**9) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline(), process.stdout.readline()]
            time.sleep(after)
            process.send_signal(signal.SIGKILL)
            acknowledged += [line for line in process.stdout if line.endswith("\n")]
    standing = AnswerStore(store.path).standing()
    for line in acknowledged:
        seq, item_id = line.split()
        assert standing[item_id].seq == int(seq)


def test_two_processes_lose_no_answer(store: AnswerStore) -> None:
    with start(store, "ann", 150) as ann, start(store, "bob", 150) as bob:
        lines = ann.communicate()[0].split("\n") + bob.communicate()[0].split("\n")
    assert (ann.returncode, bob.returncode) == (0, 0)
    printed = {int(line.split()[0]): line.split()[1] for line in lines if line}
    assert sorted(printed) == list(range(1, 301))
    assert {a.seq: a.item_id for a in store.standing().values()} == printed


def test_threads_share_a_store(store: AnswerStore) -> None:
    def add(who: int) -> None:
        for n in range(20):
            store.add(f"{who}-{n}", "none")

    threads = [threading.Thread(target=add, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.standing()) == store.last_seq() == 80


def test_only_one_of_many_first_answers_wins(store: AnswerStore) -> None:
    outcomes: list[bool] = []

    def add(who: int) -> None:
        try:
            store.add("i", "label", str(who), expected_seq=0)
            outcomes.append(True)
        except AnswerConflictError:
            outcomes.append(False)

    threads = [threading.Thread(target=add, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


def test_a_newer_schema_is_refused(store: AnswerStore) -> None:
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RunError, match=r"99.*newer surelabel"):
        AnswerStore(store.path)


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(RunDamagedError, match=r"answers\.sqlite"):
        AnswerStore(tmp_path / "answers.sqlite")
    assert not (tmp_path / "answers.sqlite").exists()


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(content)
    with pytest.raises(RunDamagedError, match=r"answers\.sqlite"):
        AnswerStore(path)
    assert path.read_bytes() == content


def test_purposes_are_kept_apart(store: AnswerStore) -> None:
    store.add("i", "label", "cat", expected_seq=0)
    audit = store.add("i", "label", "dog", expected_seq=0, purpose=Purpose.AUDIT)
    assert standing_label(store) == "cat"
    assert store.standing(purpose=Purpose.AUDIT)["i"].label == "dog"
    assert store.standing(purpose=Purpose.FIRST) == {}
    assert [a.seq for a in store.history("i", Purpose.AUDIT)] == [audit]
    store.add("i", "undo", purpose=Purpose.AUDIT)
    assert store.standing(purpose=Purpose.AUDIT) == {}
    assert standing_label(store) == "cat"


def test_the_standing_answers_of_a_few(store: AnswerStore) -> None:
    for item_id in ("a", "b", "c"):
        store.add(item_id, "label", item_id)
    store.add("b", "undo")
    assert {i: a.label for i, a in store.standing_of(["a", "b", "x"]).items()} == {"a": "a"}
    assert store.standing_of([]) == {}


def test_a_folder_that_may_only_be_read_is_read(
    store: AnswerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root, who may write everywhere, the system's answer is replaced."""
    store.add("a", AnswerKind.LABEL, "cat", reviewer="me")
    store.close()
    folder = store.path.parent
    store.path.chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "access", lambda *_: False)
    try:
        assert AnswerStore(store.path).standing()["a"].label == "cat"
        with pytest.raises(RunError):
            AnswerStore(store.path).add("a", AnswerKind.LABEL, "dog")
    finally:
        folder.chmod(0o755)


def test_answers_that_come_during_a_commit_share_the_next_and_none_is_lost(
    store: AnswerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_threads, n_commits = 16, 0
    real = AnswerStore._store

    def held(self: AnswerStore, jobs: list[object]) -> None:
        nonlocal n_commits
        n_commits += 1
        patience = time.monotonic() + 60
        while n_commits == 1 and len(self._waiting) + len(jobs) < n_threads:
            assert time.monotonic() < patience, "the other threads do not come"
            time.sleep(0.01)
        real(self, jobs)  # type: ignore[arg-type]

    monkeypatch.setattr(AnswerStore, "_store", held)
    with ThreadPoolExecutor(n_threads) as pool:
        seqs = list(pool.map(lambda n: store.add(f"i{n}", "label", f"c{n}"), range(n_threads)))
    assert sorted(seqs) == list(range(1, n_threads + 1))
    assert n_commits <= 2
    again = AnswerStore(store.path)
    for n, seq in enumerate(seqs):
        assert (again.standing()[f"i{n}"].label, again.history(f"i{n}")[0].seq) == (f"c{n}", seq)


def test_in_one_commit_each_answer_is_refused_or_stored_by_itself(store: AnswerStore) -> None:
    label = AnswerKind.LABEL
    results = store.add_all(
        [
            NewAnswer("a", label, "cat", expected_seq=0),
            NewAnswer("a", label, "dog", expected_seq=0),
            NewAnswer("a", label, "cow", expected_seq=1),
            NewAnswer("b", AnswerKind.UNDO),
        ]
    )
    assert results[0] == 1
    assert isinstance(results[1], AnswerConflictError)
    assert results[1].standing is not None
    assert results[1].standing.label == "cat"
    assert results[2] == 2
    assert isinstance(results[3], RunError)
    assert store.last_seq() == 2
    assert standing_label(store, "a") == "cow"


def test_two_stores_on_one_file_see_each_others_answers(store: AnswerStore) -> None:
    other = AnswerStore(store.path)
    assert other.standing() == store.standing() == {}
    store.add("i", "label", "cat")
    assert standing_label(other) == "cat"
    other.add("i", "undo")
    assert store.standing() == other.standing() == {}
    assert store.standing_of(["i"]) == {}


def test_a_flipped_bit_is_never_another_answer(store: AnswerStore) -> None:
    for n in range(30):
        store.add(f"item-{n}", "label", f"class-{n}", reviewer="ann")
    expected = {i: a.label for i, a in store.standing().items()}
    store.close()
    sound = store.path.read_bytes()
    refused = 0
    for seed in range(60):
        rng = random.Random(seed)
        damaged = bytearray(sound)
        for _ in range(10):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        store.path.write_bytes(damaged)
        for name in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                store.path.with_name(store.path.name + name).unlink()
        try:
            found = {i: a.label for i, a in AnswerStore(store.path).standing().items()}
        except RunError:
            refused += 1
            continue
        assert found == expected
    assert refused > 10


def test_a_file_without_checksums_is_read_and_gets_them(store: AnswerStore) -> None:
    store.add("a", "label", "cat")
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        connection.execute("ALTER TABLE answers DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 2")
        connection.commit()
    old = AnswerStore(store.path)
    assert standing_label(old, "a") == "cat"
    old.add("b", "label", "dog")
    assert {i: a.label for i, a in AnswerStore(store.path).standing().items()} == {
        "a": "cat",
        "b": "dog",
    }


def test_a_copy_that_is_put_back_under_a_server_is_used(store: AnswerStore, tmp_path: Path) -> None:
    store.add("a", "label", "cat")
    store.close()
    shutil.copy(store.path, tmp_path / "copy")
    store.add("a", "label", "dog")
    assert standing_label(store, "a") == "dog"
    store.close()
    (tmp_path / "copy").replace(store.path)
    assert standing_label(store, "a") == store.history("a")[-1].label == "cat"
    store.add("b", "label", "dog")
    assert AnswerStore(store.path).history("b")[0].label == "dog"
    store.path.unlink()
    with pytest.raises(RunError, match="missing"):
        store.add("c", "label", "dog")
