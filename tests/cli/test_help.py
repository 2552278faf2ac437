from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_files import surelabel
from typer.testing import CliRunner

from surelabel.cli.main import build_app
from surelabel.config.fields import Group
from surelabel.config.settings import options


def test_help_shows_the_common_options_and_help_all_shows_every_one(tmp_path: Path) -> None:
    common = surelabel("label", "--help", cwd=tmp_path).stdout
    every = surelabel("label", "--help-all", cwd=tmp_path).stdout
    for option in options():
        flag = f"--{option.name.replace('_', '-')} "
        assert flag in every
        assert (flag in common) == (option.metadata["group"] is Group.COMMON)


def test_every_command_is_listed_and_has_help(tmp_path: Path) -> None:
    listed = surelabel("--help", cwd=tmp_path).stdout
    often = (
        "start",
        "label",
        "resume",
        "show",
        "review",
        "audit",
        "forecast",
        "export",
        "export-model",
        "predict",
    )
    rarely = ("label-errors", "report", "compare", "adapt", "draw", "add", "demo", "study", "data")
    for command in (*often, *rarely):
        assert f"  {command} " in listed
        shown = CliRunner().invoke(build_app(), [command, "--help"])
        assert shown.exit_code == 0
        assert f"{command} [" in shown.output


def test_on_a_terminal_commands_are_grouped_by_what_one_wants_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = CliRunner().invoke(build_app(), ["--help"]).output
    order = ["Label a collection", " label ", "See what a run did", " show ", "Use the result"]
    places = [shown.index(text) for text in order]
    assert places == sorted(places)


def test_shells_complete_commands(tmp_path: Path) -> None:
    request = {
        "_SURELABEL_COMPLETE": "complete_bash",
        "COMP_WORDS": "surelabel expo",
        "COMP_CWORD": "1",
    }
    done = CliRunner().invoke(build_app(), [], prog_name="surelabel", env=request)
    assert done.output.split() == ["export", "export-model"]


def test_a_folder_in_place_of_a_command_means_start(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    same = [surelabel(*words, "photos", cwd=tmp_path) for words in ((), ("start",))]
    assert same[0].returncode == same[1].returncode == 2
    assert same[0].stderr == same[1].stderr
    assert "photos" in same[0].stderr
    (tmp_path / "show").mkdir()
    assert "RUN" in surelabel("show", "--help", cwd=tmp_path).stdout
    missing = surelabel("fotos", cwd=tmp_path)
    assert missing.returncode == 2
    assert "fotos" in missing.stderr
