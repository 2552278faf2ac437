from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.export.names import class_folders, class_of_folder, safe_name

NAMES = st.text(
    st.sampled_from("aAbBcCoOnN./\\%~ :üÜ\u0308ß\u017f1\n-_") | st.characters(), max_size=12
)


@pytest.mark.parametrize("name", ["cat", "Grüner Käse", "a-b_c", "3", "v1.2", "cat (old)"])
def test_harmless_names_stay(name: str) -> None:
    assert class_folders([name]) == {name: name}


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        (".hidden", "%2Ehidden"),
        ("end.", "end%2E"),
        ("end ", "end%20"),
        ("100%", "100%25"),
        ("CON", "%43ON"),
        ("aux.txt", "%61ux.txt"),
        ("unlabeled", "%75nlabeled"),
        ("Unlabeled", "%55nlabeled"),
        ("a:b", "a%3Ab"),
        ("", "%"),
    ],
)
def test_names_that_no_folder_can_have_are_escaped(name: str, folder: str) -> None:
    assert class_folders([name]) == {name: folder}
    assert class_of_folder(folder) == name


def test_names_that_differ_in_case_only_do_not_meet() -> None:
    folders = class_folders(["Cat", "cat", "dog"])
    assert folders == {"Cat": "%43at", "cat": "cat", "dog": "dog"}


def test_names_that_differ_in_composition_only_do_not_meet() -> None:
    composed = "\u00fc"
    folders = class_folders([composed, unicodedata.normalize("NFD", composed)])
    assert all(folder.isascii() for folder in folders.values())
    assert len(set(folders.values())) == 2


def test_folders_do_not_depend_on_the_order() -> None:
    names = ["Cat", "cat", "CAT", "a/b", "con", "Con"]
    assert class_folders(names) == class_folders(reversed(names))


def test_long_names_fit_and_do_not_meet() -> None:
    folders = class_folders(["ü" * 300, "ü" * 301, "/" * 100])
    assert all(len(folder.encode()) <= 255 for folder in folders.values())
    assert len(set(folders.values())) == 3


@given(st.lists(NAMES, unique=True, max_size=8))
def test_any_names_become_safe_distinct_folders_that_can_be_read_back(names: list[str]) -> None:
    folders = class_folders(names)
    assert len({folder.casefold() for folder in folders.values()}) == len(names)
    for name, folder in folders.items():
        assert class_of_folder(folder) == name
        assert not re.search(r'[\x00-\x1f/\\:*?"<>|]', folder)
        assert folder
        assert folder[0] not in ". "
        assert folder[-1] not in ". "
        assert folder.casefold() != "unlabeled"


def test_a_single_name_is_escaped_alike() -> None:
    assert safe_name("a/b") == "a%2Fb"
    assert safe_name("a.png") == "a.png"
