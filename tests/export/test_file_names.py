from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from surelabel.export.names import file_names

PATHS = st.lists(
    st.lists(st.sampled_from(["a", "A", "b", "a_b", "..", "a.png", "b_a.png"]), min_size=1).map(
        "/".join
    ),
    max_size=12,
)


def name_all(*paths: str) -> list[str]:
    return file_names(["f"] * len(paths), paths, [f"id{i}" for i in range(len(paths))])


def test_a_name_that_meets_no_other_stays() -> None:
    assert name_all("lot1/a.png", "lot2/b.png", "c.png") == ["a.png", "b.png", "c.png"]


def test_as_many_folders_as_needed_tell_names_apart() -> None:
    assert name_all("lot1/a.png", "lot2/a.png") == ["lot1_a.png", "lot2_a.png"]
    assert name_all("x/lot/a.png", "y/lot/a.png") == ["x_lot_a.png", "y_lot_a.png"]


def test_names_in_different_folders_may_be_equal() -> None:
    assert file_names(["f", "g"], ["1/a.png", "2/a.png"], ["x", "y"]) == ["a.png", "a.png"]


def test_names_that_differ_in_case_only_do_not_meet() -> None:
    assert name_all("1/a.png", "2/A.PNG") == ["1_a.png", "2_A.PNG"]


def test_paths_that_meet_as_a_whole_get_their_ids() -> None:
    assert name_all("a/b_c.png", "a_b/c.png") == ["b_c.png", "c.png"]
    assert name_all("x.png", "X.png") == ["x-id0.png", "X-id1.png"]


def test_a_path_cannot_leave_its_folder() -> None:
    assert name_all("../../a.png", "..", "/") == ["a.png", "image-id1", "image-id2"]


def test_long_names_fit() -> None:
    (name,) = name_all("x" * 240 + ".png")
    assert name == "x" * 32 + "-id0.png"


@given(PATHS)
def test_names_never_meet_and_do_not_depend_on_the_order(paths: list[str]) -> None:
    ids = [f"id{i}" for i in range(len(paths))]
    names = file_names(["f"] * len(paths), paths, ids)
    assert len({name.casefold() for name in names}) == len(paths)
    assert not any("/" in name for name in names)
    assert file_names(["f"] * len(paths), paths[::-1], ids[::-1]) == names[::-1]
