from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from surelabel.dataset.items import class_order


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
