"""Checks of accepted labels by people, on rounds whose scores are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run, truth

from surelabel.api import Run
from surelabel.errors import LabelsError, RunError
from surelabel.guarantees.confidence_sequence import anytime_upper_bound
from surelabel.messages.guarantees import audit_class_rows, audit_sentence, audit_sentences
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.audit import (
    audit_result,
    checks_table,
    ids_to_check,
    is_right,
    record_checks,
    take_answers,
)

WRONG = (10, 50, 51)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path, label_rows(range(0)))
    finish_round(made, wrong=WRONG)
    return made


def answer(table: pd.DataFrame, path: Path) -> Path:
    """Fill in the true classes."""
    table["answer"] = [truth(int(p.split(":")[1])) for p in table["path"]]
    table.to_csv(path, index=False)
    return path


def test_everything_checked_ends_at_the_truth(folder: RunFolder, tmp_path: Path) -> None:
    table = checks_table(folder, N)
    assert len(table) == 193
    result = take_answers(folder, answer(table, tmp_path / "a.csv"))
    assert (result.all.n_checked, result.all.n_wrong, result.all.at_most) == (193, 3, 3)
    assert sum(checked.n_wrong for checked in result.by_class.values()) == 3
    assert set(result.by_class) == {"ant", "bee"}


def test_the_checks_are_a_prefix_of_one_order(folder: RunFolder) -> None:
    few, many = checks_table(folder, 20), checks_table(folder, 60)
    assert few["path"].tolist() == many["path"].tolist()[:20]
    assert few["path"].tolist() != sorted(few["path"])
    assert few.attrs["began"]
    assert not many.attrs["began"]
    assert len(folder.read_audits()) == 1


def test_the_bound_is_that_of_the_sequence(folder: RunFolder, tmp_path: Path) -> None:
    table = checks_table(folder, 80)
    result = take_answers(folder, answer(table, tmp_path / "a.csv"))
    numbers = [int(p.split(":")[1]) for p in table["path"]]
    wrong = pd.Series(numbers).isin(WRONG).to_numpy()
    assert result.all.at_most == anytime_upper_bound(193, wrong, 1 - 0.95)[-1]
    text = audit_sentence(result)
    for fact in ("80 checked", f"{wrong.sum()} wrong", "193 accepted labels", "95 % confidence"):
        assert fact in text
    assert [row[0] for row in audit_class_rows(result)] == ["ant", "bee"]


def test_answers_given_before_are_filled_in_and_checks_go_on(
    folder: RunFolder, tmp_path: Path
) -> None:
    take_answers(folder, answer(checks_table(folder, 30), tmp_path / "a.csv"))
    table = checks_table(folder, 50)
    assert set(table["answer"][:30]) <= {"right", "wrong"}
    assert set(table["answer"][30:]) == {""}
    result = take_answers(folder, answer(table, tmp_path / "b.csv"))
    assert result.all.n_checked == 50


def test_unsure_and_skipped_count_as_wrong_and_the_end_is_not_checked_yet(
    folder: RunFolder, tmp_path: Path
) -> None:
    table = checks_table(folder, 40)
    table["answer"] = ["right"] * 10 + ["", "unsure"] + ["yes"] * 8 + [""] * 20
    table.to_csv(tmp_path / "a.csv", index=False)
    result = take_answers(folder, tmp_path / "a.csv")
    assert (result.all.n_checked, result.all.n_wrong) == (20, 2)


def test_relabeling_makes_an_audit_void(folder: RunFolder, tmp_path: Path) -> None:
    path = answer(checks_table(folder, 30), tmp_path / "a.csv")
    take_answers(folder, path)
    finish_round(folder, number=2, threshold=0.4)
    with pytest.raises(RunError, match="have changed"):
        take_answers(folder, path)
    with pytest.raises(RunError, match="have changed"):
        audit_result(folder)
    written = Run(folder.path).write_checks(30, tmp_path / "b.csv")
    assert (written.began, written.void) == (True, True)
    assert len(folder.read_audits()) == 2
    assert audit_result(folder).all.n_checked == 0
    assert audit_result(folder).all.error == 1


def test_the_summary_knows_an_audit_and_whether_it_still_counts(
    folder: RunFolder, tmp_path: Path
) -> None:
    run = Run(folder.path)
    assert (run.summary.audit, run.summary.audit_is_void) == (None, False)
    checks_table(folder, 30)
    assert (run.summary.audit, run.summary.audit_is_void) == (None, False)
    take_answers(folder, answer(checks_table(folder, 30), tmp_path / "a.csv"))
    audit = run.summary.audit
    assert audit is not None
    assert audit.all.n_checked == 30
    assert "30 checked" in audit_sentences(run.summary)[0]
    finish_round(folder, number=2, threshold=0.4)
    assert (run.summary.audit, run.summary.audit_is_void) == (None, True)
    assert "--audit" in audit_sentences(run.summary)[0]


def test_a_correction_in_review_does_not_disturb_an_audit(
    folder: RunFolder, tmp_path: Path
) -> None:
    table = checks_table(folder, 30)
    catalog = folder.catalog
    first = catalog.ids[catalog.paths.tolist().index(table["path"][0])]
    folder.answers.add(str(first), AnswerKind.LABEL, "bee")
    assert take_answers(folder, answer(table, tmp_path / "a.csv")).all.n_checked == 30


def test_a_class_name_means_the_class() -> None:
    assert is_right("OK", "OK", {"OK", "bad"})
    assert not is_right("OK", "bad", {"OK", "bad"})
    assert is_right("ok", "bad", {"good", "bad"})
    assert not is_right("perhaps", "bad", {"good", "bad"})
    assert not is_right("right", "left", {"left", "right"})
    assert not is_right("ok", "bad", {"OK", "bad"})
    assert is_right("ok", "OK", {"OK", "bad"})


def test_tables_that_do_not_fit_get_a_sentence(folder: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has no audit yet"):
        audit_result(folder)
    table = checks_table(folder, 5)
    table.to_csv(tmp_path / "empty.csv", index=False)
    with pytest.raises(LabelsError, match="no answer yet"):
        take_answers(folder, tmp_path / "empty.csv")
    table.assign(answer="right", path="array:00399").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(LabelsError, match="row 2: 'array:00399' is not among the accepted"):
        take_answers(folder, tmp_path / "other.csv")
    table[["path"]].to_csv(tmp_path / "half.csv", index=False)
    with pytest.raises(LabelsError, match="path and answer are needed"):
        take_answers(folder, tmp_path / "half.csv")
    with pytest.raises(LabelsError, match="no such file"):
        take_answers(folder, tmp_path / "none.csv")


def answer_on_page(folder: RunFolder, item: str, label: str | None = None) -> None:
    """Record an answer as the review page does; by default the true class."""
    catalog = folder.catalog
    (path,) = catalog.paths[catalog.rows(np.array([item]))].tolist()
    given = label or truth(int(path.split(":")[1]))
    folder.answers.add(item, AnswerKind.LABEL, given, purpose=Purpose.AUDIT)


def test_answers_on_the_page_are_checks_like_those_of_a_table(
    folder: RunFolder, tmp_path: Path
) -> None:
    ids = ids_to_check(folder, 40)
    for item in ids.tolist():
        answer_on_page(folder, item)
    on_page = audit_result(folder)
    assert on_page.all.n_checked == 40
    table = checks_table(folder, 40)
    assert set(table["answer"]) <= {"right", "wrong"}
    assert take_answers(folder, answer(table, tmp_path / "a.csv")) == on_page


def test_unsure_and_none_of_the_classes_count_as_wrong_on_the_page(folder: RunFolder) -> None:
    first, second, third = ids_to_check(folder, 3).tolist()
    folder.answers.add(first, AnswerKind.UNSURE, purpose=Purpose.AUDIT)
    folder.answers.add(second, AnswerKind.NONE, purpose=Purpose.AUDIT)
    answer_on_page(folder, third)
    assert (audit_result(folder).all.n_checked, audit_result(folder).all.n_wrong) == (3, 2)


def test_answers_of_an_earlier_audit_count_but_not_their_order(folder: RunFolder) -> None:
    for item in ids_to_check(folder, N).tolist():
        answer_on_page(folder, item)
    assert audit_result(folder).all.n_checked == 193
    folder.answers.add(ids_to_check(folder, 1).tolist()[0], AnswerKind.LABEL, "ant")
    folder.write_audits([])
    again = ids_to_check(folder, 10).tolist()
    assert audit_result(folder).all.n_checked == 0
    answer_on_page(folder, again[4])
    assert audit_result(folder).all.n_checked == 5
    assert audit_result(folder).all.n_wrong <= 3


def test_answers_outside_an_audit_are_no_checks(folder: RunFolder) -> None:
    first = ids_to_check(folder, 1).tolist()[0]
    folder.answers.add(first, AnswerKind.LABEL, "ant", purpose=Purpose.BLIND)
    assert audit_result(folder).all.n_checked == 0


def test_the_name_of_a_class_without_an_accepted_label_is_no_yes(tmp_path: Path) -> None:
    labels = label_rows(range(0)).replace({"ant": "0", "bee": "1"})
    folder = make_run(tmp_path, labels)
    finish_round(folder, wrong=tuple(range(1, N, 2)))
    table = checks_table(folder, 20)
    assert set(table["label"]) == {"0"}
    table["answer"] = ["0" if int(p.split(":")[1]) % 2 == 0 else "1" for p in table["path"]]
    table.to_csv(tmp_path / "a.csv", index=False)
    n_odd = int((table["answer"] == "1").sum())
    assert n_odd > 0
    assert take_answers(folder, tmp_path / "a.csv").all.n_wrong == n_odd


def test_answers_of_an_earlier_audit_are_not_filled_in_ahead(
    folder: RunFolder, tmp_path: Path
) -> None:
    for item in ids_to_check(folder, N).tolist():
        answer_on_page(folder, item)
    folder.answers.add(ids_to_check(folder, 1).tolist()[0], AnswerKind.LABEL, "ant")
    folder.write_audits([])
    table = checks_table(folder, 100)
    assert set(table["answer"]) == {""}
    result = take_answers(folder, answer(table[:20].copy(), tmp_path / "a.csv"))
    assert result.all.n_checked == 20


def test_the_table_of_an_audit_is_no_table_of_labels(folder: RunFolder, tmp_path: Path) -> None:
    checks_table(folder, 10).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(LabelsError, match="source pseudo"):
        Run(folder.path).add(labels=tmp_path / "a.csv")


def test_an_audit_says_what_it_means_for_the_finished_dataset(folder: RunFolder) -> None:
    ids = ids_to_check(folder, 60).tolist()
    with folder.lock():
        record_checks(folder, dict.fromkeys(ids, True))
    result = audit_result(folder)
    assert result.all.n_checked == 60
    assert result.n_dataset == N
    assert result.n_left == N - 8 - result.all.n_accepted
    assert result.dataset_error == result.all.at_most / N < result.all.error
    assert f"{result.n_left:,}" in audit_sentence(result)


def test_it_says_how_many_right_checks_would_show_the_target(
    folder: RunFolder, tmp_path: Path
) -> None:
    order = [int(path.split(":")[1]) for path in checks_table(folder, N)["path"]]
    first_wrong = min(order.index(i) for i in WRONG)
    result = take_answers(folder, answer(checks_table(folder, first_wrong), tmp_path / "a.csv"))
    assert (result.max_error, result.all.n_wrong) == (0.02, 0)
    assert 0 < result.n_more < 193
    assert f"{result.n_more:,} further checks" in audit_sentence(result)
    wrong = np.zeros(first_wrong + result.n_more, dtype=bool)
    assert anytime_upper_bound(193, wrong, 0.05)[-1] == 8  # 2 % of all 400 labels
