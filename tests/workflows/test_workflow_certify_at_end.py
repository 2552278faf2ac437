"""Certification at the end of a run, on rounds whose scores are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run

from surelabel.api import Run
from surelabel.dataset.extend import extend_catalog
from surelabel.dataset.sampling import record_draw
from surelabel.guarantees.bounds import wrong_upper_bound
from surelabel.messages.guarantees import ceiling_percent, certification_sentences, class_rows
from surelabel.report.text import promise_text
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.types import Split
from surelabel.workflows.certify import certify_run, standing_certification
from surelabel.workflows.label import annotations_of
from surelabel.workflows.problem import problem_of

MANY = range(8, N, 2)
"""196 of 392 pool images, spread evenly over the scores, all of the class ant."""


def certify(folder: RunFolder) -> CertificationRecord:
    record = certify_run(folder, problem_of(folder).pool_ids)
    assert record is not None
    return record


def sentences(folder: RunFolder) -> str:
    return " ".join(certification_sentences(Run(folder.path).summary))


def labeled(folder: RunFolder) -> set[int]:
    table = annotations_of(folder)
    chosen = table["path"][table["source"] == "pseudo"]
    return {int(path.split(":")[1]) for path in chosen}


def spread(every: int = 3) -> range:
    """Certify images of both classes."""
    return range(9, N, every)


def test_a_certified_threshold_replaces_the_one_from_tune_labels(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2)
    assert max(labeled(folder)) == 80
    record = certify(folder)
    (part,) = record.parts
    assert (part.status, record.labels_read, record.round) == ("certified", True, 1)
    assert part.threshold is not None
    assert 0.8 < part.threshold < 0.87
    assert max(labeled(folder)) == pytest.approx(part.threshold * N, abs=3)
    assert set(spread()).isdisjoint(labeled(folder))
    text = sentences(folder)
    left = N - 8 - len(spread()) - len(labeled(folder))
    for fact in (f"the {left:,} images", "at most 5.0 % of all 400 labels", "95 % confidence"):
        assert fact in text
    assert f"{part.n_accepted:,} are accepted" in text


def test_newly_accepted_labels_have_a_round_and_no_weight(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05")
    finish_round(folder, threshold=0.2)
    certify(folder)
    table = annotations_of(folder).set_index("path")
    row = table[table["source"] == "pseudo"].iloc[-1]
    assert (row["round"], row["weight"]) == (1, 0.0)
    assert row["threshold"] == pytest.approx(0.9975)


def test_a_strict_target_also_takes_labels_back(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(8, N, 1)[::2]), max_error="0.03")
    finish_round(folder, wrong=tuple(range(250, N)), threshold=0.9)
    before = labeled(folder)
    assert certify(folder).parts[0].status == "certified"
    assert labeled(folder) < before
    assert max(labeled(folder)) < 265


def test_without_a_target_the_threshold_gets_its_exact_bound(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), stop_below=N)
    finish_round(folder, wrong=(12, 15), threshold=0.5)
    record = certify(folder)
    accepted = [i for i in range(8, N) if i / N <= 0.5]
    checked = [i for i in accepted if i in spread()]
    most = wrong_upper_bound(len(accepted), len(checked), 2, 1 - 0.95)
    dataset, part = record.parts
    assert part.error == (most - 2) / len(accepted)  # the two are corrected in the result
    assert (dataset.error, dataset.n_labels) == ((most - 2) / N, N)
    assert [part.name for part in record.by_class] == ["ant", "bee"]
    assert sum(part.n_checked for part in record.by_class) == len(checked)
    assert [row[0] for row in class_rows(record)] == ["ant", "bee"]
    assert f"{len(checked):,} " in sentences(folder)
    assert "2 wrong" in sentences(folder)


def test_too_few_certify_labels_are_not_read_and_the_message_has_the_remedy(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(9, 40, 3)), max_error="0.02", stop_below=N)
    finish_round(folder, wrong=(9, 12))
    record = certify(folder)
    assert (record.labels_read, record.holds, record.parts[0].status) == (False, False, "too_few")
    assert max(labeled(folder)) == 200
    text = sentences(folder)
    assert "11 certify images" in text
    assert "more are needed" in text


def test_errors_among_the_most_certain_are_refused(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread(2)), max_error="accepted=0.02", stop_below=N)
    finish_round(folder, wrong=tuple(range(9, N, 6)))
    record = certify(folder)
    assert (record.parts[0].status, record.labels_read) == ("too_wrong", True)
    assert max(labeled(folder)) == 200
    assert f"{record.parts[0].n_wrong:,} wrong" in sentences(folder)


def test_each_class_may_have_its_own_target(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread(1)), max_error="each=0.1", stop_below=N)
    finish_round(folder, wrong=tuple(range(301, N, 2)), threshold=0.2)
    record = certify(folder)
    assert [part.name for part in record.parts] == ["ant", "bee"]
    ant, bee = (part.threshold for part in record.parts)
    assert ant is not None
    assert bee is not None
    assert max(i for i in labeled(folder) | set(spread(1)) if i / N <= ant) > bee * N
    assert "'ant'" in sentences(folder)
    assert "'bee'" in sentences(folder)


def test_the_certify_labels_are_read_once(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05", stop_below=N)
    finish_round(folder)
    first = certify(folder)
    assert certify(folder) == first
    assert len(folder.read_certifications()) == 1
    finish_round(folder, number=2, threshold=0.4)
    assert standing_certification(folder) is None
    second = certify(folder)
    assert (second.alpha_spent, second.labels_read, second.parts) == (True, False, ())
    assert f"surelabel review {folder.path} --certify" in sentences(folder)
    assert max(labeled(folder)) == 160
    assert certify(folder) == second


def test_two_certifications_share_alpha(tmp_path: Path) -> None:
    options = {"max_error": "0.08", "alpha_share": 0.5}
    folder = make_run(tmp_path, label_rows(spread()), **options)
    for number in (1, 2, 3):
        finish_round(folder, number=number, threshold=0.3 + number / 10)
        record = certify(folder)
        assert record.alpha_spent == (number == 3)
        assert all(part.status == "certified" for part in record.parts)


def test_fresh_certify_labels_allow_a_new_certification_without_training(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread(6)), max_error="0.1", stop_below=N)
    finish_round(folder)
    certify(folder)
    finish_round(folder, number=2, threshold=0.4)
    assert certify(folder).alpha_spent
    before = problem_of(folder).inputs
    fresh = [i for i in range(10, N, 3) if i not in spread(6)]
    rows = pd.DataFrame([(i, "ant" if i % 2 == 0 else "bee", "certify") for i in fresh])
    rows.columns = pd.Index(["path", "label", "split"])
    rows["path"] = [f"array:{i:05d}" for i in fresh]
    catalog, _ = extend_catalog(folder.catalog, None, rows, seed=4, cache=tmp_path / "cache")
    folder.replace_catalog(record_draw(catalog, problem_of(folder, catalog=catalog).pool_ids))
    assert problem_of(folder).inputs == before
    record = certify(folder)
    assert (record.alpha_spent, record.holds) == (False, True)
    assert record.parts[0].n_checked == len(fresh)
    assert record.parts[0].n_accepted == N - 8 - len(spread(6))
    assert certify(folder) == record


def test_outliers_are_not_accepted_however_sure(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05")
    finish_round(folder, outliers=(10, 20, 22))
    assert certify(folder).holds
    assert {10, 20, 22}.isdisjoint(labeled(folder))
    reasons = annotations_of(folder).set_index("path")["reason"]
    assert reasons["array:00010"] == "outlier"


def test_none_of_these_and_unknown_classes_count_as_wrong(tmp_path: Path) -> None:
    labels = label_rows(spread(), i9="none of these", i12="None of These", i15="wasp")
    folder = make_run(tmp_path, labels)
    finish_round(folder)
    assert folder.catalog.classes == ("ant", "bee")
    assert certify(folder).parts[0].n_wrong == 3
    table = annotations_of(folder).set_index("path")
    assert table.loc["array:00009", "source"] == "given"
    assert table.loc["array:00009", "label"] not in ("ant", "bee")


def test_a_certify_image_without_a_label_counts_as_wrong_and_the_last_ones_as_not_drawn(
    tmp_path: Path,
) -> None:
    labels = label_rows(range(9, 300, 3))
    labels.loc[labels["index"].isin([9, 150]), "label"] = ""
    labels.loc[labels["index"] > 250, "label"] = ""
    folder = make_run(tmp_path, labels)
    catalog = folder.catalog
    assert len(catalog.in_split(Split.CERTIFY)) == len([i for i in range(9, 300, 3) if i <= 250])
    finish_round(folder)
    assert certify(folder).parts[0].n_wrong == 2
    assert 9 not in labeled(folder)  # a person has to label it


def test_without_certify_labels_nothing_is_certified(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)), stop_below=N)
    finish_round(folder)
    assert certify_run(folder, problem_of(folder).pool_ids) is None
    assert folder.read_certifications() == []
    text = sentences(folder)
    assert f"surelabel review {folder.path} --certify" in text


def test_certify_labels_change_nothing_that_is_learned(tmp_path: Path) -> None:
    """Whatever the certify labels are, the problem that is trained on is the same."""
    one = make_run(tmp_path / "one", label_rows(spread()))
    two = make_run(tmp_path / "two", label_rows(spread(), i9="ant", i12="bee", i15="wasp"))
    plain = make_run(tmp_path / "plain", label_rows(range(0)))
    problems = [problem_of(folder) for folder in (one, two, plain)]
    assert len({problem.inputs for problem in problems}) == 1
    assert all((p.pool_ids == problems[0].pool_ids).all() for p in problems)
    assert all((p.human_ids == problems[0].human_ids).all() for p in problems)


def test_groups_are_the_unit_and_groups_that_were_learned_are_not_covered(tmp_path: Path) -> None:
    """Groups of four; train labels are of the first two groups, which cover images 0 to 7."""
    rows = pd.DataFrame({"index": range(N), "label": "", "split": "", "group": ""})
    rows["group"] = [f"lot {i // 4}" for i in range(N)]
    rows.loc[:5, "label"] = [("ant", "bee")[i % 2] for i in range(6)]
    rows.loc[:5, "split"] = "train"
    drawn = [i for i in range(8, N) if (i // 4) % 2 == 0]
    rows.loc[drawn, "label"] = [("ant", "bee")[i % 2] for i in drawn]
    rows.loc[drawn, "split"] = "certify"
    folder = make_run(tmp_path, rows, stop_below=N)
    finish_round(folder, threshold=1.0)
    record = certify(folder)
    dataset, part = record.parts
    assert record.in_groups
    assert dataset.n_labels == N - 2
    assert (part.n_checked, part.n_accepted, record.n_not_covered) == (len(drawn) // 4, N - 8, 2)
    n_lots = (N - 8) // 4
    assert part.error == 4 * wrong_upper_bound(n_lots, len(drawn) // 4, 0, 1 - 0.95) / (N - 8)
    assert f"{part.n_checked:,} groups" in sentences(folder)
    assert "2 images" in sentences(folder)


@pytest.mark.parametrize(
    ("share", "text"), [(0.02, "2.0 %"), (0.01601, "1.7 %"), (0.00042, "0.05 %"), (1.0, "100 %")]
)
def test_a_bound_is_never_rounded_down(share: float, text: str) -> None:
    assert ceiling_percent(share) == text
    assert np.isfinite(share)


def test_labels_that_are_all_wrong_were_checked_and_guarantee_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(9, 40, 3)), stop_below=N)
    finish_round(folder, wrong=tuple(range(8, N)))
    record = certify(folder)
    assert (record.labels_read, record.holds) == (True, False)
    text = sentences(folder)
    assert "11 of them" in text
    assert "11 wrong" in text


def test_undoing_an_answer_gives_the_certify_labels_their_pool_back(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), stop_below=N)
    finish_round(folder)
    other = problem_of(folder).pool_ids[-1]
    folder.answers.add(other, "label", "ant")
    assert certify(folder).pool_changed
    assert certify(folder).pool_changed
    assert len(folder.read_certifications()) == 1
    folder.answers.add(other, "undo")
    assert certify(folder).holds


def test_the_guarantee_stays_while_people_label_the_rest_and_ends_with_a_new_round(
    tmp_path: Path,
) -> None:
    folder = make_run(tmp_path, label_rows(spread()), stop_below=N)
    finish_round(folder)
    assert certify(folder).holds
    assert promise_text(Run(folder.path).summary).startswith("at most ")
    folder.answers.add(problem_of(folder).pool_ids[-1], "label", "ant")
    assert promise_text(Run(folder.path).summary).startswith("at most ")
    finish_round(folder, number=2)
    assert promise_text(Run(folder.path).summary) == "nothing"


def test_the_promise_tightens_while_people_label_the_rest_and_correct_labels(
    tmp_path: Path,
) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05", stop_below=N)
    finish_round(folder, wrong=(10, 11, *range(330, N)), threshold=0.2)
    certify(folder)
    before = Run(folder.path).summary
    assert before.promise is not None
    assert (before.promise.n_wrong, before.promise.n_labels) == (20, N)
    assert before.promise.n_present == N - before.n_left
    assert f"20 of the {before.promise.n_present:,} labels" in sentences(folder)

    left = annotations_of(folder).query("source == ''")["id"].tolist()
    for item_id in left[:-5]:
        folder.answers.add(item_id, "label", "ant")
    later = Run(folder.path).summary.promise
    assert later is not None
    assert (later.n_wrong, later.n_present) == (20, N - 5)
    assert f"({ceiling_percent(20 / (N - 5))})" in sentences(folder)

    table = annotations_of(folder).set_index("path")
    by_index = {int(path.split(":")[1]): path for path in table.index}
    for i, label in ((10, "ant"), (11, "bee"), (13, "bee")):
        folder.answers.add(str(table.loc[by_index[i], "id"]), "label", label)
    corrected = Run(folder.path).summary.promise
    assert corrected is not None
    assert (corrected.n_wrong, corrected.n_corrected) == (18, 2)
    assert f"at most {ceiling_percent(18 / N)} of all" in sentences(folder)


def test_a_promise_that_people_disprove_is_not_repeated(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(spread()), max_error="0.05", stop_below=N)
    finish_round(folder, threshold=0.2)
    certify(folder)
    table = annotations_of(folder).query("source == 'pseudo'")
    for item_id, label in zip(table["id"][:21], table["label"][:21], strict=True):
        folder.answers.add(item_id, "label", "bee" if label == "ant" else "ant")
    promise = Run(folder.path).summary.promise
    assert promise is not None
    assert promise.is_disproved
    assert "failed" in sentences(folder)
    assert "at most" not in sentences(folder).replace("wrong at most", "")
    assert promise_text(Run(folder.path).summary) == "nothing"
