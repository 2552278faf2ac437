"""Searching paths: the same rows as a search in each path alone."""

from __future__ import annotations

import numpy as np
import pytest

from surelabel.files import mapped_arrays
from surelabel.review.path_search import PathSearch

PATHS = ["a/Leaf.JPG", "b/leaf (2).jpg", "Ärger/straße.png", "leaf/leaf/leaf.png", "c.png", ""]


@pytest.mark.parametrize(
    "text", ["leaf", "LEAF", ".jpg", "(2)", "ärger", "STRASSE", "/", "png", "f.pngc", "absent", "."]
)
def test_the_paths_that_contain_a_text_are_found_in_order(text: str) -> None:
    expected = [k for k, path in enumerate(PATHS) if text.casefold() in path.casefold()]
    search = PathSearch(np.array(PATHS))
    assert search.find(text, 10).tolist() == expected
    assert search.find(text, 1).tolist() == expected[:1]


def test_nothing_is_found_by_no_text_and_between_paths() -> None:
    search = PathSearch(np.array(PATHS))
    for text in ("", "\0", "jpg\0b"):
        assert not len(search.find(text, 10))
    assert not len(PathSearch(np.array([], dtype=np.str_)).find("a", 10))


def test_many_paths_are_mapped_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_arrays, "LARGE", 1 << 16)
    search = PathSearch(np.array([f"photo-{k:06d}.jpg" for k in range(150_000)]))
    assert search.find("photo-149999", 60).tolist() == [149_999]
    assert search.find("-065536.", 60).tolist() == [65_536]
    assert search.find("photo", 60).tolist() == list(range(60))
