from __future__ import annotations

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.dataset.items import (
    LabelRow,
    Vote,
    absolute,
    class_order,
    item_id,
    item_ids,
    merge_label_rows,
    one_spelling,
    similar_names,
    string_array,
)
from surelabel.dataset.splits import unanswered_certify
from surelabel.errors import LabelsError


def test_the_id_is_a_hash_of_the_path_and_nothing_else() -> None:
    expected = hashlib.sha256(b"cats/1.png").hexdigest()[:16]
    assert item_id("cats/1.png") == expected


@given(st.lists(st.text(max_size=20), unique_by=lambda s: unicodedata.normalize("NFC", s)))
def test_ids_keep_the_order_and_differ(keys: list[str]) -> None:
    ids = item_ids(keys)
    assert ids.tolist() == [item_id(key) for key in keys]
    assert len(set(ids.tolist())) == len(keys)


def test_both_unicode_forms_of_a_name_have_one_id() -> None:
    assert item_id("caf\u00e9.png") == item_id("cafe\u0301.png")


def test_an_empty_string_array_is_one_of_strings() -> None:
    assert string_array([]).dtype.kind == "U"


def test_numbers_are_in_the_order_of_counting() -> None:
    assert class_order(["10", "2", "1", "01", "a10", "a2", "2"]) == (
        "01",
        "1",
        "2",
        "10",
        "a2",
        "a10",
    )


def test_case_does_not_separate_neighbors() -> None:
    assert class_order(["b", "C", "A"]) == ("A", "b", "C")


@given(st.lists(st.text(min_size=1, max_size=6)))
def test_the_order_depends_on_the_names_only(names: list[str]) -> None:
    assert class_order(names) == class_order(reversed(names))
    assert set(class_order(names)) == set(names)


def test_rows_about_the_same_image_are_merged() -> None:
    merged = merge_label_rows(
        [
            LabelRow("a", "t:2", group="lot"),
            LabelRow("b", "t:3", label="cat"),
            LabelRow("a", "t:4", label="dog", split="tune"),
            LabelRow("b", "t:5", label="cat"),
        ]
    )
    assert merged["a"] == LabelRow("a", "t:4", "dog", "tune", "lot")
    assert merged["b"] == LabelRow("b", "t:3", "cat")


def _stated(*rows: tuple[str, dict[str, Any]]) -> tuple[tuple[str, dict[str, Any]], ...]:
    return rows


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("label", "cat", "dog"), ("split", "train", "tune"), ("group", "a", "b")],
)
def test_a_contradiction_names_both_lines(name: str, one: str, other: str) -> None:
    first, second = (
        LabelRow("p", where, **stated)
        for where, stated in _stated(("t.csv:2", {name: one}), ("t.csv:9", {name: other}))
    )
    with pytest.raises(
        LabelsError, match=rf"t.csv:9: 'p' has the {name} '{other}', and '{one}' in t.csv:2"
    ):
        merge_label_rows([first, second])


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(
        LabelsError, match=r"t.csv:2: the split is 'test'; it can be train, tune or"
    ):
        LabelRow("p", "t.csv:2", "cat", split="test")


def test_pseudo_labels_are_refused_but_not_the_groups_beside_them() -> None:
    with pytest.raises(LabelsError, match=r"t:2 .*source pseudo"):
        merge_label_rows([LabelRow("a", "t:2", label="cat", source="pseudo")])
    assert (
        merge_label_rows([LabelRow("a", "t:2", group="lot", source="pseudo")])["a"].group == "lot"
    )


def test_a_drawn_table_keeps_its_order_after_earlier_rows() -> None:
    images = [LabelRow(key, f"images:{key}", group="lot") for key in "abcd"]
    drawn = [LabelRow(key, f"drawn:{key}", split="certify") for key in "db"]
    drawn[0] = LabelRow("d", "drawn:d", "cat", "certify")
    merged = merge_label_rows([*images, *drawn])
    assert list(merged) == ["a", "c", "d", "b"]
    assert unanswered_certify(merged) == set()


def test_dots_go_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    assert absolute("link/../link/./a.png") == str(tmp_path / "link" / "a.png")
    assert absolute(tmp_path / "link") == str(tmp_path / "link")


def test_names_that_differ_only_in_spelling_are_found_and_joined() -> None:
    names = ["cat", "Cat", "sea lion", "sea-lion", "Sea_Lion ", "catfish"]
    assert similar_names(names) == [["cat", "Cat"], ["sea lion", "sea-lion", "Sea_Lion "]]
    labels = ["Cat", "cat", "cat", "dog", ""]
    rows = {str(i): LabelRow(str(i), "here", label) for i, label in enumerate(labels)}
    assert [row.label for row in one_spelling(rows).values()] == ["cat", "cat", "cat", "dog", ""]


def votes(*given: tuple[str, str]) -> list[LabelRow]:
    return [
        LabelRow("p", f"t.csv:{i}", label, annotator=who) for i, (who, label) in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ([("ann", "cat"), ("bob", "cat")], "cat"),
        ([("ann", "cat"), ("bob", "dog"), ("eve", "dog")], "dog"),
        ([("ann", "cat"), ("bob", "dog")], ""),
        ([("ann", "cat"), ("bob", "dog"), ("eve", "fox")], ""),
        ([("ann", "cat"), ("ann", "cat"), ("bob", "dog"), ("eve", "dog")], "dog"),
    ],
)
def test_of_several_people_the_majority_counts_and_none_at_a_tie(
    given: list[tuple[str, str]], label: str
) -> None:
    merged = merge_label_rows(votes(*given))["p"]
    assert merged.label == label
    assert set(merged.votes) == {Vote(*each) for each in given}


def test_one_person_with_two_labels_and_a_person_against_nobody_are_contradictions() -> None:
    for pair in ([("ann", "cat"), ("ann", "dog")], [("ann", "cat"), ("", "dog")]):
        with pytest.raises(LabelsError, match="annotator"):
            merge_label_rows(votes(*pair))
