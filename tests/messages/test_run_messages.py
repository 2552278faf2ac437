"""The facts in messages about a run: numbers, names, paths and commands."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from surelabel.config.choices import Strategy
from surelabel.messages.guarantees import ceiling_percent
from surelabel.messages.run import (
    draw_sentence,
    error_sentence,
    finished_sentence,
    headline,
    held_out_text,
    names_text,
    next_steps,
    nothing_labeled_message,
    percent,
    predict_sentence,
    state_sentence,
    unguessed_sentence,
)
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import StopReason
from surelabel.workflows.summary import Summary


def summary_of(counts: dict[str, tuple[int, int, int]], n_rounds: int = 1) -> Summary:
    numbers = ("n_human", "n_pseudo", "n_pool", "n_accepted", "n_left", "n_changed", "n_held_out")
    errors = ("held_out_errors", "n_held_out_accepted", "held_out_accepted_errors")
    zeros: dict[str, Any] = dict.fromkeys((*numbers, *errors), 0)
    metrics = RoundMetrics(
        number=1,
        inputs="",
        threshold=0.5,
        classes=tuple(counts),
        **zeros,
    )
    kinds = ("human", "labeled", "left")
    return Summary(
        path="run",
        n_images=17,
        n_human=8,
        n_copied=0,
        n_labeled=5,
        n_left=4,
        n_skipped=0,
        n_near_duplicates=0,
        classes=tuple(counts),
        rounds=(metrics,) * n_rounds,
        stop_reason=None,
        counts={name: dict(zip(kinds, found, strict=True)) for name, found in counts.items()},
        cross_fit=False,
    )


def test_longer_training_is_advised_only_where_something_is_trained() -> None:
    plain = summary_of({"ant": (6, 5, 4)})
    poor = dataclasses.replace(
        plain.rounds[0], n_held_out_accepted=10, held_out_accepted_errors=3, n_held_out=10
    )
    for head, is_advised in (("linear", False), ("small", True)):
        metrics = dataclasses.replace(poor, learner={"members": [{"head": head}]})
        message = error_sentence(dataclasses.replace(plain, rounds=(metrics,)))
        assert "10 of your labels that it had not seen: 3 wrong" in message
        assert "more labels" in message
        assert ("--effort high" in message) is is_advised


def test_a_class_that_is_never_guessed_is_named() -> None:
    message = unguessed_sentence(summary_of({"ant": (6, 5, 4), "bee": (2, 0, 0), "cow": (0, 0, 0)}))
    assert "'bee' (2 labels)" in message
    assert "ant" not in message
    assert "cow" not in message
    assert unguessed_sentence(summary_of({"ant": (6, 5, 3), "bee": (2, 0, 1)})) == ""
    assert unguessed_sentence(summary_of({"ant": (8, 0, 0), "bee": (2, 0, 0)}, n_rounds=0)) == ""


def test_shares_keep_two_digits_and_never_become_zero() -> None:
    assert percent(0) == "0 %"
    assert percent(0.00012) == "0.012 %"
    assert percent(0.0534) == "5.3 %"
    assert percent(0.534) == "53.4 %"
    assert percent(math.nan) == "-"
    assert held_out_text(3, 412) == "3 of 412 (0.73 %)"
    assert held_out_text(0, 0) == "0 of 0 (-)"


def test_bounds_are_never_rounded_down() -> None:
    assert ceiling_percent(0.0501) == "5.1 %"
    assert ceiling_percent(0.05) == "5.0 %"
    assert ceiling_percent(0.00012) == "0.02 %"
    assert ceiling_percent(1) == "100 %"


def test_every_stop_reason_has_a_text() -> None:
    assert len({finished_sentence(reason) for reason in StopReason}) == len(StopReason)
    assert "2 rounds" in finished_sentence(StopReason.ROUND_LIMIT, 2)


def test_long_lists_of_names_are_cut_with_a_count() -> None:
    names = [f"class-{number}" for number in range(8)]
    assert names_text(names[:2]) == "class-0, class-1"
    assert names_text(names).endswith("and 3 more")


def test_the_headline_counts_what_the_run_labeled_and_left() -> None:
    summary = summary_of({"ant": (8, 5, 4)})
    assert "5 of the 9" in headline(summary)
    assert "4" in headline(summary)
    assert "9" in headline(summary_of({"ant": (8, 0, 9)}, n_rounds=0))


def test_next_steps_are_commands_for_this_run() -> None:
    commands = [command for command, _ in next_steps(summary_of({"ant": (8, 5, 4)}))]
    assert "surelabel resume run" in commands
    assert "surelabel review run" in commands
    assert any(command.startswith("surelabel export run --out ") for command in commands)


def test_labels_that_look_wrong_are_told_before_more_labels_are_asked_for() -> None:
    """A few wrong labels raise the estimated error until no guess is accepted."""
    summary = summary_of({"ant": (8, 0, 9)})
    (last,) = summary.rounds
    strict = dataclasses.replace(summary, rounds=(dataclasses.replace(last, target_error=0.02),))
    doubted = dataclasses.replace(strict, n_suspicious=3)
    assert dict(next_steps(doubted))["surelabel label-errors run"].startswith("list 3")
    message = nothing_labeled_message(doubted)
    assert message.index("surelabel review run --suspicious") < message.index("more labels")
    assert "label-errors" not in str(next_steps(strict))
    assert "--suspicious" not in nothing_labeled_message(strict)


def test_the_estimated_error_is_told_without_options_which_no_page_has() -> None:
    (last,) = summary_of({"ant": (8, 5, 4)}).rounds
    rounds = dataclasses.replace(last, target_error=0.02, n_held_out_accepted=95)
    message = error_sentence(dataclasses.replace(summary_of({"ant": (8, 5, 4)}), rounds=(rounds,)))
    assert "95" in message
    assert "2 %" in message
    assert "--" not in message


def test_paths_with_spaces_can_be_copied_from_a_message() -> None:
    summary = dataclasses.replace(summary_of({"ant": (8, 5, 4)}), path="my runs/one")
    assert "surelabel resume 'my runs/one'" in state_sentence(summary)


def test_drawn_images_come_with_the_command_that_uses_them() -> None:
    photos, table = Path("photos"), Path("l.csv")
    message = draw_sentence(
        90, 90, photos, Path("labels.csv"), Strategy.RANDOM, n_certify=0, n_least=177
    )
    assert "surelabel label photos --labels labels.csv" in message
    hidden = draw_sentence(90, 90, photos, table, Strategy.RANDOM, n_certify=30, n_least=177)
    assert "30 of them have the split certify" in hidden
    more = draw_sentence(90, 90, Path("run"), table, Strategy.UNCERTAIN, n_certify=0, n_least=177)
    assert "surelabel add run --labels l.csv && surelabel resume run" in more


def test_a_draw_that_sets_no_image_aside_says_so_and_why() -> None:
    photos, table = Path("photos"), Path("l.csv")
    few = draw_sentence(120, 120, photos, table, Strategy.RANDOM, n_certify=0, n_least=177)
    assert "177" in few
    assert "--certify" in few
    everything = draw_sentence(300, 600, photos, table, Strategy.RANDOM, n_certify=100, n_least=177)
    assert "draw fewer (-n)" in everything
    many = draw_sentence(600, 600, photos, table, Strategy.RANDOM, n_certify=0, n_least=177)
    assert "draw fewer" not in many
    assert "certify" in many
    assert "177" not in many


def test_images_that_differ_from_those_of_the_run_get_a_warning() -> None:
    plain = predict_sentence(7, 15, [], Path("new.csv"))
    assert "7 of 15" in plain
    assert "new.csv" in plain
    skipped = [("a.png", "it is empty")]
    warned = predict_sentence(7, 15, skipped, Path("new.csv"), ["score", "distance"])
    assert "a.png" in warned
    assert "it is empty" in warned
    assert len(warned) > len(plain) + 100
