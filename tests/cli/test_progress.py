"""What a pipe gets to read while a run works."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from surelabel.cli import output
from surelabel.cli.progress import LineReporter
from surelabel.types import Progress


def lines_of(steps: list[tuple[float, str, int, int]]) -> list[str]:
    """What is printed for progress at these times: (seconds, step, done, total)."""
    out = io.StringIO()
    now = 0.0
    reporter = LineReporter(Console(file=out, width=200), clock=lambda: now)
    for seconds, what, done, total in steps:
        now = seconds
        reporter.on_progress(Progress(what, done, total))
    return out.getvalue().splitlines()


def test_a_short_step_is_silent() -> None:
    assert lines_of([(0, "decoding", 0, 10), (1, "decoding", 5, 10), (2, "decoding", 10, 10)]) == []


def test_a_long_step_is_told_with_the_time_it_still_takes() -> None:
    steps = [(float(s), "features (2 MB to write)", 10 * s, 1000) for s in range(100)]
    lines = lines_of(steps)
    assert 2 <= len(lines) <= 5
    assert "2 MB" in lines[0]
    assert "50 of 1,000" in lines[0]
    assert "95 s" in lines[0] or "2 min" in lines[0]


def test_what_was_done_before_does_not_count_for_the_pace() -> None:
    steps = [(0.0, "features", 500, 1000), (10.0, "features", 600, 1000)]
    (line,) = lines_of(steps)
    assert "40 s" in line


def test_on_a_terminal_sentences_are_wrapped_between_words_and_commands_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=30, markup=False)
    monkeypatch.setattr(output, "console", console)
    output.say(
        "Every sentence is wrapped between its words. Then:\n  surelabel label photos --out x"
    )
    *sentence, last, _ = screen.getvalue().split("\n")
    assert len(sentence) == 2
    assert " ".join(line.strip() for line in sentence) == (
        "Every sentence is wrapped between its words. Then:"
    )
    assert last == "  surelabel label photos --out x"
