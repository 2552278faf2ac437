from __future__ import annotations

import pytest

from surelabel.dataset.items import Mark, merge_marks
from surelabel.dataset.splits import unanswered
from surelabel.errors import LabelsError


def test_what_is_said_in_several_rows_is_put_together() -> None:
    merged = merge_marks(
        [
            Mark("a", "t:2", group="lot"),
            Mark("b", "t:3", label="cat"),
            Mark("a", "t:4", label="dog", split="tune"),
            Mark("b", "t:5", label="cat"),
        ]
    )
    assert merged["a"] == Mark("a", "t:4", "dog", "tune", "lot")
    assert merged["b"] == Mark("b", "t:3", "cat")


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [("label", "cat", "dog"), ("split", "train", "tune"), ("group", "a", "b")],
)
def test_a_contradiction_names_both_lines(name: str, one: str, other: str) -> None:
    first, second = Mark("p", "t.csv:2", **{name: one}), Mark("p", "t.csv:9", **{name: other})
    with pytest.raises(
        LabelsError, match=rf"t.csv:9: 'p' has the {name} '{other}', and '{one}' in t.csv:2"
    ):
        merge_marks([first, second])


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(
        LabelsError, match=r"t.csv:2: the split is 'test'; it can be train, tune or"
    ):
        Mark("p", "t.csv:2", "cat", split="test")


def test_the_machines_own_labels_are_refused_and_its_other_marks_taken() -> None:
    with pytest.raises(LabelsError, match=r"t:2 has a label by the machine \(source pseudo\)"):
        merge_marks([Mark("a", "t:2", label="cat", source="pseudo")])
    assert merge_marks([Mark("a", "t:2", group="lot", source="pseudo")])["a"].group == "lot"


def test_a_draw_keeps_its_order_whatever_was_said_of_its_images_before() -> None:
    images = [Mark(key, f"images:{key}", group="lot") for key in "abcd"]
    drawn = [Mark(key, f"drawn:{key}", split="certify") for key in "db"]
    drawn[0] = Mark("d", "drawn:d", "cat", "certify")
    merged = merge_marks([*images, *drawn])
    assert list(merged) == ["a", "c", "d", "b"]
    assert unanswered(merged) == set()
