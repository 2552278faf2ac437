from __future__ import annotations

import math

import pytest

from report.report_data import FORMULA
from surelabel.report.plots import drawable, printable, wilson_interval


def test_the_interval_is_wilsons() -> None:
    z2 = 1.959964**2
    assert wilson_interval(0, 10) == pytest.approx((0, z2 / (10 + z2)))
    assert wilson_interval(10, 10) == pytest.approx((10 / (10 + z2), 1))
    low, high = wilson_interval(50, 100)
    assert (low + high) / 2 == pytest.approx(0.5)
    assert high - low == pytest.approx(math.sqrt(z2 / (100 + z2)))
    assert wilson_interval(0, 0) == (0, 1)


def test_names_that_the_font_lacks_become_numbers() -> None:
    assert drawable(["cat", FORMULA, "a\nb", " ", "x" * 40]) == [
        "cat",
        "class 2",
        "class 3",
        "class 4",
        f"{'x' * 16}… 5",
    ]


def test_dollars_do_not_begin_a_formula() -> None:
    from matplotlib.text import Text

    (name,) = drawable(["$5 and $6"])
    assert Text(0, 0, name)._preprocess_math(name) == ("$5 and $6", False)  # type: ignore[attr-defined]


def test_control_characters_are_shown_as_unknown() -> None:
    assert printable("a\x00b\nc") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"
