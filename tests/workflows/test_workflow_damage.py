"""Files of a run that were damaged or changed by hand: told by name, and never a wrong label."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from certify_data import finish_round, label_rows, make_run
from workflow_data import photos_and_labels, tiny

import surelabel
from surelabel.config.settings import Config
from surelabel.errors import RunDamagedError
from surelabel.files import atomic
from surelabel.runs import document_digests
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify import certify_run
from surelabel.workflows.label import _UNANSWERED, write_result
from surelabel.workflows.problem import problem_of

FILES = (
    "run.json",
    "config.toml",
    "catalog.parquet",
    "certification.json",
    "audits.json",
    "annotations.parquet",
    "digests.json",
    "rounds/001/scores.parquet",
    "rounds/001/tune.parquet",
    "rounds/001/metrics.json",
    "rounds/001/digests.json",
)
DERIVED = "annotations.parquet"


@pytest.fixture(name="sound", scope="module")
def fixture_sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one round, a promise and an audit."""
    place = tmp_path_factory.mktemp("sound")
    folder = make_run(place, label_rows(range(8, 208)), max_error="accepted=0.1")
    finish_round(folder, held=30)
    with folder.lock():
        certify_run(folder, problem_of(folder).pool_ids)
        write_result(folder)
    surelabel.open_run(folder.path).write_checks(5, place / "checks.csv")
    return folder.path


def everything(run: Path) -> tuple[pd.DataFrame, object]:
    """What a new process takes from a run: its labels, its promise, its figures, its audits."""
    _UNANSWERED.clear()  # else it would still have the sound table that it joined before
    opened = surelabel.open_run(run)
    summary = opened.summary.to_json()
    return opened.annotations, [summary, opened.folder.read_audits()]


def flip(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [flip, truncate])
def test_a_damaged_file_is_named_and_changes_no_label(
    sound: Path, tmp_path: Path, name: str, damage: Callable[[Path, random.Random], None]
) -> None:
    run = sound.parent / tmp_path.name
    shutil.copytree(sound, run)
    labels, rest = everything(run)
    if name != DERIVED:
        (run / DERIVED).unlink()  # so that the tables of the round are read
    whole = (run / name).read_bytes()
    rng = random.Random(name)
    for _ in range(3):
        damage(run / name, rng)
        if name.endswith("digests.json"):
            with contextlib.suppress(RunDamagedError):  # a changed blank does no harm
                pd.testing.assert_frame_equal(everything(run)[0], labels)
        elif name == DERIVED:
            table, other = everything(run)
            pd.testing.assert_frame_equal(table, labels)
            assert other == rest
        else:
            with pytest.raises(RunDamagedError, match=Path(name).stem):
                everything(run)
        (run / name).write_bytes(whole)
    pd.testing.assert_frame_equal(everything(run)[0], labels)
    shutil.rmtree(run)


@pytest.mark.parametrize("name", ["certification.json", "audits.json", "digests.json"])
def test_a_deleted_document_is_missed(sound: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    (run / name).unlink()
    with pytest.raises(RunDamagedError, match=f"{name} is missing"):
        everything(run)


def test_settings_that_were_emptied_are_not_taken_for_defaults(sound: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    (run / "config.toml").write_text("")
    with pytest.raises(RunDamagedError, match=r"config\.toml"):
        surelabel.resume(run)


def test_a_run_made_without_digests_opens_and_has_them_after_the_next_change(
    sound: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    (run / "digests.json").unlink()
    about = (run / "run.json").read_text().replace('"digests": true', '"threads": 1')
    (run / "run.json").write_text(about)
    labels, _ = everything(run)
    folder = RunFolder.open(run)
    folder.note({"seen": True})
    pd.testing.assert_frame_equal(everything(run)[0], labels)
    (run / "config.toml").write_text("")
    with pytest.raises(RunDamagedError, match=r"config\.toml"):
        RunFolder.open(run)


class KilledError(BaseException):
    """Stands for SIGKILL between two steps on the disk."""


STEPS = 9
"""Three files are written, each forced to disk, renamed, and its name forced to disk."""


@pytest.mark.parametrize("step", range(STEPS + 1))
def test_killed_between_any_two_steps_of_a_change_the_old_or_the_new_document_counts(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    folder = RunFolder.open(run)
    before = folder.config
    after = before.replace(max_rounds=before.max_rounds + 1)
    left = step

    def die_here(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    sync, rename = atomic.fsync, Path.replace

    def fsync(path: Path) -> None:
        die_here()
        sync(path)

    def replace(self: Path, target: Path) -> Path:
        die_here()
        return rename(self, target)

    with monkeypatch.context() as patch, contextlib.suppress(KilledError):
        patch.setattr(atomic, "fsync", fsync)
        patch.setattr(Path, "replace", replace)
        folder.replace_config(after)
    assert (left < 0) == (step < STEPS)
    found = RunFolder.open(run).config
    assert found in (before, after)
    again: Config = after.replace(max_rounds=9)
    RunFolder.open(run).replace_config(again)
    assert RunFolder.open(run).config == again
    digests = document_digests.read_digests(run)
    assert digests is not None
    assert [len(each) for each in digests.values()] == [1] * len(digests)


def test_damaged_pixels_are_decoded_again_and_change_no_label(tmp_path: Path) -> None:
    photos, table = photos_and_labels(tmp_path)
    config = tiny(tmp_path / "cache", max_rounds=1)
    expected = surelabel.label(photos, table, tmp_path / "one", config=config).annotations
    (file,) = tmp_path.glob("cache/pixels-*/pixels.u8")
    rng = random.Random(2)
    for _ in range(100):
        flip(file, rng)
    run = surelabel.label(photos, table, tmp_path / "two", config=config)
    pd.testing.assert_frame_equal(run.annotations, expected)
    labels = run.predict(photos)
    for _ in range(100):
        flip(file, rng)
    pd.testing.assert_frame_equal(run.predict(photos), labels)
