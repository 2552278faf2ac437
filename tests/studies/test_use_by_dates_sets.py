from __future__ import annotations

from collections import Counter

import pytest

from surelabel.errors import OptionError
from surelabel_studies.use_by_dates.sets import (
    DAYS_OF_MONTH,
    LOCATIONS_OF,
    Category,
    Like,
    counts,
    label_of,
    like_named,
    plan,
)

PAPER = {
    Like.SET1: (375, 59, 10, 645, 315),
    Like.SET2: (3715, 68, 39, 2847, 46),
    Like.SET3: (0, 16, 0, 1138, 0),
    Like.SET4: (0, 0, 0, 8931, 5017),
}
ORDER = ("no-date", "day-missing", "month-missing", "complete", "unreadable")


@pytest.mark.parametrize("like", Like)
def test_a_whole_set_has_the_counts_of_the_paper(like: Like) -> None:
    counted = Counter(str(each.category) for each in plan(like, 0))
    assert tuple(counted[name] for name in ORDER) == PAPER[like]


@pytest.mark.parametrize("like", Like)
def test_scale_shrinks_in_proportion_and_loses_no_category(like: Like) -> None:
    whole, tenth, tiny = counts(like), counts(like, 0.1), counts(like, 0.001)
    assert set(whole) == set(tenth) == set(tiny)
    for category, n in whole.items():
        assert abs(tenth[category] - n / 10) <= 0.5 or tenth[category] == 1
        assert tiny[category] >= 1


def test_set_4_is_readable_or_not() -> None:
    labels = Counter(label_of(Like.SET4, each.category) for each in plan(Like.SET4, 1))
    assert labels == {"readable": 8931, "unreadable": 5017}


@pytest.mark.parametrize("like", Like)
def test_dates_exist_and_are_there_as_the_category_says(like: Like) -> None:
    for each in plan(like, 3, 0.5):
        assert bool(each.day) == each.category.has_day
        assert bool(each.month) == each.category.has_month
        if each.day and each.month:
            assert each.day <= DAYS_OF_MONTH[each.month - 1]


def test_the_dates_of_the_papers_experiments_are_frequent_enough() -> None:
    days = Counter(a.day for a in plan(Like.SET3, 0) if a.category is Category.COMPLETE)
    assert [days[d] for d in (5, 8, 16, 20)] == [55, 67, 63, 61]
    months = Counter(a.month for a in plan(Like.SET2, 0) if a.category is Category.COMPLETE)
    assert sorted(months.values())[-3] >= 381
    assert {10, 11} <= {month for month, _ in months.most_common(3)}


def test_locations_share_a_set_evenly_in_every_category() -> None:
    counted = Counter((a.category, a.location) for a in plan(Like.SET1, 0))
    for category, n in counts(Like.SET1).items():
        shares = [counted[category, place] for place in LOCATIONS_OF[Like.SET1]]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) == n


def test_another_seed_orders_otherwise() -> None:
    assert plan(Like.SET1, 0) != plan(Like.SET1, 1)
    assert Counter(a.category for a in plan(Like.SET1, 0)) == Counter(
        a.category for a in plan(Like.SET1, 1)
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, 11.0, float("nan")])
def test_a_scale_out_of_range_gets_a_sentence(scale: float) -> None:
    with pytest.raises(OptionError, match="above 0 and at most 10"):
        counts(Like.SET1, scale)


def test_an_unknown_set_gets_a_sentence() -> None:
    with pytest.raises(OptionError, match="set1, set2, set3, set4"):
        like_named("set5")
