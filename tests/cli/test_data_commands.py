from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_files import surelabel


def test_use_by_dates_are_written_and_called_synthetic(tmp_path: Path) -> None:
    arguments = ["data", "use-by-dates", "dates", "--like", "set4", "--scale", "0.0005"]
    done = surelabel(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 synthetic photographs" in done.stderr
    assert "4 readable, 3 unreadable" in done.stderr
    assert len(list((tmp_path / "dates" / "images").glob("*.jpg"))) == 7
    again = surelabel(*arguments, "--json", cwd=tmp_path)
    assert json.loads(again.stdout) == {
        "synthetic": True,
        "out": "dates",
        "images": 7,
        "readable": 4,
        "unreadable": 3,
    }


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--like", "set9"], "'set9'"),
        (["--like", "set1", "--scale", "0"], "above 0"),
        (["--like", "set1", "--size", "32"], "299"),
    ],
)
def test_bad_input_gets_a_message(tmp_path: Path, arguments: list[str], fact: str) -> None:
    done = surelabel("data", "use-by-dates", "out", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert fact in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_group_has_help(tmp_path: Path) -> None:
    assert "use-by-dates" in surelabel("data", "--help", cwd=tmp_path).stdout
    shown = surelabel("data", "use-by-dates", "--help", cwd=tmp_path).stdout
    assert "synthetic" in shown
    assert "--scale" in shown
