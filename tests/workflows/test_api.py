"""The Python API: progress, what a notebook shows, and the examples in the docstrings."""

from __future__ import annotations

import doctest
import inspect
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints

import pytest
from workflow_data import photos_and_labels, tiny, write_labels, write_stripes

import surelabel
from surelabel import api
from surelabel.cli.notebook import Html, NotebookReporter, notebook_display
from surelabel.cli.progress import Reporter, watching
from surelabel.selftraining.events import Advice, RoundFinished
from surelabel.types import Progress

EXAMPLES = (
    api.label,
    api.Run,
    vars(api.Run)["annotations"],
    vars(api.Run)["rounds"],
    api.Run.predict,
    api.Run.export,
    api.Run.add,
    api.Run.resume,
)
"""In the order in which they can be run one after the other."""


def test_the_examples_in_the_docstrings_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photos_and_labels(tmp_path)
    write_stripes(tmp_path / "more", "across", [90])
    names = [f"{name}-{i:02d}.png" for name in ("across", "down") for i in (10, 11)]
    write_labels(tmp_path / "more.csv", names)
    fast = partial(api.label, config=tiny(tmp_path / "cache", steps=60, accept="top:28"))
    values = {"surelabel": SimpleNamespace(label=fast, open_run=api.open_run)}
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for each in EXAMPLES:
        text = inspect.getdoc(each) or ""
        name = str(each)
        example = parser.get_doctest(text, values, name, None, None)
        assert example.examples, name
        outcome = runner.run(example, clear_globs=False)
        assert outcome.failed == 0, name
        values = example.globs


def test_every_public_function_has_types_that_can_be_read() -> None:
    methods = [each for _, each in inspect.getmembers(api.Run, inspect.isfunction)]
    for function in (api.label, api.resume, api.open_run, *methods):
        assert "return" in get_type_hints(function)


class Cell:
    """The output of a notebook's cell."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, obj: object) -> None:
        assert isinstance(obj, Html)
        self.shown.append(obj._repr_html_())


def test_a_notebook_shows_a_bar_then_sentences_and_rounds(tmp_path: Path) -> None:
    cell, now = Cell(), [0.0]
    reporter = NotebookReporter(lambda _: cell, lambda: now[0])
    reporter.on_progress(Progress("reading <images>", 0, 10))
    reporter.on_progress(Progress("reading <images>", 5, 10))
    assert len(cell.shown) == 1, "too soon after the first"
    now[0] = 1.0
    reporter.on_progress(Progress("reading <images>", 7, 10))
    assert "value='7' max='10'" in cell.shown[-1]
    assert "&lt;images&gt;" in cell.shown[-1]
    reporter.on_event(Advice("Take care."))
    photos, labels = photos_and_labels(tmp_path, 8, 3)
    config = tiny(tmp_path / "cache", steps=2, max_rounds=1)
    run = surelabel.label(photos, labels, tmp_path / "run", config=config)
    reporter.on_event(RoundFinished(run.rounds[0]))
    reporter.close()
    assert "<progress" not in cell.shown[-1]
    assert "Take care." in cell.shown[-1]
    assert "<td>1</td>" in cell.shown[-1]
    html = run._repr_html_()
    for fact in ("across", "labels by people", str(run.path), "<table>"):
        assert fact in html
    assert "<td>1</td>" in run.rounds._repr_html_()


def test_outside_of_a_terminal_and_a_notebook_nothing_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert notebook_display() is None
    with watching() as reporter:
        assert type(reporter) is Reporter
        reporter.on_progress(Progress("reading images", 1, 2))
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_progress_is_shown_unless_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, labels = photos_and_labels(tmp_path, 8, 3)
    config = tiny(tmp_path / "cache", steps=2, max_rounds=1)
    monkeypatch.setenv("FORCE_COLOR", "1")
    surelabel.label(photos, labels, tmp_path / "quiet", config=config, progress=False)
    assert capsys.readouterr().err == ""
    surelabel.label(photos, labels, tmp_path / "shown", config=config)
    assert "round" in capsys.readouterr().err
