from __future__ import annotations

import hashlib
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from surelabel.dataset.items import item_id, item_ids, strings


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


def test_no_strings_are_an_array_of_strings() -> None:
    assert strings([]).dtype.kind == "U"
