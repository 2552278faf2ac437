from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from surelabel.errors import InputError, OptionError
from surelabel.export.writers import ExportFormat, check_target, choose_format, export_run
from surelabel.runs.folder import RunFolder

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]

EXPORT_FOREVER = """
import sys
from surelabel.export.writers import export_run
from surelabel.runs.folder import RunFolder
run = RunFolder.open(sys.argv[1])
table = run.read_annotations(run.result_inputs())
print("ready", flush=True)
for n in range(10**6):
    export_run(run, table, "folder", sys.argv[2], overwrite=True)
"""


@pytest.fixture(name="run")
def fixture_run(photo_run: MakeRun) -> RunFolder:
    return photo_run(["1.png", "lot/1.png", "2.png"], ["cat", "a/b", ""])


def table_of(run: RunFolder) -> pd.DataFrame:
    table = run.read_annotations(run.result_inputs())
    assert table is not None
    return table


def export(run: RunFolder, to: str, out: Path, *, overwrite: bool = False) -> int:
    return export_run(run, table_of(run), to, out, overwrite=overwrite)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_has_every_image(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    assert export(run, "folder", out) == 3
    assert names(out) == ["a%2Fb", "cat", "classes.csv", "export.json", "unlabeled"]
    assert json.loads((out / "export.json").read_text())["images"] == 3
    assert names(out.parent) == ["out"]


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_a_table_has_every_image_and_column(run: RunFolder, tmp_path: Path, to: str) -> None:
    out = tmp_path / f"out.{to}"
    assert export(run, to, out) == 3
    table = pd.read_csv(out, dtype={"id": str}) if to == "csv" else pd.read_parquet(out)
    assert table.columns.tolist() == table_of(run).columns.tolist()
    assert table["id"].tolist() == run.catalog.ids.tolist()


def test_missing_sources_do_not_count(run: RunFolder, tmp_path: Path) -> None:
    Path(run.catalog.files[0]).unlink()
    assert export(run, "folder", tmp_path / "out") == 2
    assert (tmp_path / "out" / "missing.csv").is_file()


def test_a_folder_in_use_is_refused(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(run, "folder", out)
    with pytest.raises(OptionError, match=r"out .*--overwrite"):
        export(run, "folder", out)
    export(run, "folder", out, overwrite=True)
    assert names(out / "cat") == ["1.png"]
    (out / "cat" / "extra.png").touch()
    with pytest.raises(OptionError, match=r"cat/extra\.png"):
        export(run, "folder", out, overwrite=True)
    assert names(out / "cat") == ["1.png", "extra.png"]


def pretend_export(folder: Path) -> None:
    files = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    (folder / "export.json").write_text(json.dumps({"made_by": "surelabel", "files": files}))


def test_a_folder_that_is_no_export_is_never_deleted(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"export\.json"):
        export(run, "folder", tmp_path / "photos", overwrite=True)
    (tmp_path / "photos" / "export.json").touch()
    with pytest.raises(OptionError, match=r"export\.json"):
        export(run, "folder", tmp_path / "photos", overwrite=True)
    pretend_export(tmp_path / "photos")
    with pytest.raises(OptionError, match="give another --out"):
        export(run, "folder", tmp_path / "photos", overwrite=True)
    pretend_export(tmp_path)
    with pytest.raises(OptionError, match="give another --out"):
        export(run, "folder", tmp_path, overwrite=True)
    assert Path(run.catalog.files[0]).exists()


def test_a_file_in_use_is_refused(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    with pytest.raises(OptionError, match=r"out\.csv .*--overwrite"):
        export(run, "csv", out)
    assert out.read_text() == "mine"
    with pytest.raises(OptionError, match="give --out a folder"):
        export(run, "folder", out)
    export(run, "csv", out, overwrite=True)
    assert out.read_text().startswith("id,path,label,")
    with pytest.raises(OptionError, match="give --out a file name"):
        export(run, "csv", tmp_path)


def test_the_run_itself_is_safe(run: RunFolder) -> None:
    for to, name in (("csv", "answers.sqlite"), ("folder", "."), ("parquet", "rounds/x")):
        with pytest.raises(OptionError, match="give another --out"):
            export(run, to, run.path / name, overwrite=True)
    for name in ("skipped.csv", "catalog.parquet"):  # tables of predictions, checks, votes
        with pytest.raises(OptionError, match="give another --out"):
            check_target(run.path / name, overwrite=True)
    assert export(run, "csv", run.path / "labels.csv") == 3


def test_a_place_that_cannot_be_written_is_refused_by_its_path(
    run: RunFolder, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for to in ("csv", "folder"):
        with pytest.raises(InputError, match="file/out"):
            export(run, to, tmp_path / "file" / "out")


def test_killed_it_leaves_a_whole_export_or_none(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "exports" / "out"
    out.parent.mkdir()
    for seconds in (0.1, 0.4, 0.7):
        command = [sys.executable, "-c", EXPORT_FOREVER, str(run.path), str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
        if out.exists():
            assert len(list(out.rglob("*.png"))) == 3
            assert (out / "export.json").is_file()
    export(run, "folder", out, overwrite=True)
    assert names(out.parent) == ["out"]


def test_the_format_follows_from_the_option_or_from_the_ending() -> None:
    assert {"csv", "parquet", "folder"} <= set(ExportFormat)
    assert choose_format(None, None) is ExportFormat.CSV
    assert choose_format(None, Path("all.PARQUET")) is ExportFormat.PARQUET
    assert choose_format("folder", Path("all")) is ExportFormat.FOLDER
    with pytest.raises(OptionError, match=r"csv.*all\.parquet"):
        choose_format("csv", Path("all.parquet"))
    with pytest.raises(OptionError, match="--to"):
        choose_format(None, Path("all"))
    with pytest.raises(OptionError, match=r"csv.*parquet.*folder"):
        choose_format("xml", None)
