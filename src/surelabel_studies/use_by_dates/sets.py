"""The four sets of the food-packaging study: categories, counts, and what each photograph shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from surelabel.errors import OptionError
from surelabel.types import derive_seed

MAX_SCALE = 10.0


class Like(StrEnum):
    """The set of the paper that a synthetic one is modeled on."""

    SET1 = "set1"
    """Five categories, seven locations, many faults."""
    SET2 = "set2"
    """Five categories, better photographs; half of them lack a date."""
    SET3 = "set3"
    """Almost only complete dates, good photographs."""
    SET4 = "set4"
    """Readable or not, seven locations."""


class Category(StrEnum):
    """What a photograph shows of its use-by date."""

    NO_DATE = "no-date"
    """Neither day nor month is there."""
    DAY_MISSING = "day-missing"
    """A month without a day."""
    MONTH_MISSING = "month-missing"
    """A day without a month."""
    COMPLETE = "complete"
    """Day and month, and they can be read."""
    UNREADABLE = "unreadable"
    """Day and month were printed, and a fault keeps people from reading them."""

    @property
    def has_day(self) -> bool:
        """Whether a day is printed."""
        return self in (Category.MONTH_MISSING, Category.COMPLETE, Category.UNREADABLE)

    @property
    def has_month(self) -> bool:
        """Whether a month is printed."""
        return self in (Category.DAY_MISSING, Category.COMPLETE, Category.UNREADABLE)


READABLE = "readable"
"""What set 4 calls a complete date."""


def _five(*counts: int) -> Mapping[Category, int]:
    return MappingProxyType(dict(zip(Category, counts, strict=True)))


COUNTS: Mapping[Like, Mapping[Category, int]] = MappingProxyType(
    {
        Like.SET1: _five(375, 59, 10, 645, 315),
        Like.SET2: _five(3715, 68, 39, 2847, 46),
        Like.SET3: _five(0, 16, 0, 1138, 0),
        Like.SET4: _five(0, 0, 0, 8931, 5017),
    }
)
"""The paper's table. Its rows for set 2 sum to 6,715; the text has 6,739."""


def like_named(name: str) -> Like:
    """The set called ``name``; another name is refused."""
    try:
        return Like(name)
    except ValueError:
        raise OptionError(f"There is no set '{name}': --like can be {', '.join(Like)}.") from None


def counts(like: Like, scale: float = 1.0) -> dict[Category, int]:
    """How many images of each category; ``scale`` shrinks all, a category never to nothing."""
    if not 0 < scale <= MAX_SCALE:
        raise OptionError(
            f"The scale is {scale:g}; it has to be above 0 and at most {MAX_SCALE:g} "
            "(1 is the size of the paper's set)."
        )
    return {c: max(1, round(n * scale)) for c, n in COUNTS[like].items() if n}


def label_of(like: Like, category: Category) -> str:
    """The class that people would give the photograph in this set."""
    if like is Like.SET4 and category is Category.COMPLETE:
        return READABLE
    return str(category)


DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

LOCATIONS_OF: dict[Like, tuple[str, ...]] = {
    Like.SET1: ("bakery", "dairy", "butcher", "produce", "drinks", "frozen", "meals"),
    Like.SET2: ("dairy", "produce", "meals"),
    Like.SET3: ("bakery", "drinks"),
    Like.SET4: ("bakery", "dairy", "butcher", "produce", "drinks", "frozen", "meals"),
}
"""Where the photographs of each set were taken; the paper names seven locations for set 1 only."""

_AUTUMN = (2, 2, 3, 4, 5, 5, 6, 8, 16, 24, 18, 7)
"""October and November are the months of the paper's experiment; three months have 381 or more."""
_EVEN = (8, 7, 8, 8, 9, 9, 9, 8, 8, 9, 8, 9)
_MONTHS: dict[Like, tuple[int, ...]] = {
    Like.SET1: (4, 3, 6, 9, 14, 18, 15, 11, 8, 6, 4, 2),
    Like.SET2: _AUTUMN,
    Like.SET3: (1, 1, 2, 4, 8, 24, 30, 18, 7, 3, 1, 1),
    Like.SET4: _EVEN,
}
_SET3_DAYS = {5: 55, 8: 67, 16: 63, 20: 61}
"""The four days of the paper's experiment on days, with their counts out of 1,138."""


@dataclass(frozen=True)
class Assignment:
    """What the photograph at one index has to show; 0 stands for no day and no month."""

    category: Category
    location: str
    day: int
    month: int


@lru_cache(maxsize=8)
def plan(like: Like, seed: int, scale: float = 1.0) -> tuple[Assignment, ...]:
    """The assignments of a whole set, in the order of its indices."""
    rng = np.random.default_rng(derive_seed(seed, "use-by-dates", like, "plan"))
    categories = [c for c, n in counts(like, scale).items() for _ in range(n)]
    places = LOCATIONS_OF[like]
    locations = [places[i % len(places)] for i in range(len(categories))]
    day_weights = [_day_weight(like, d) for d in range(1, 32)]
    days = _spread(rng, [c.has_day for c in categories], day_weights)
    months = _spread(rng, [c.has_month for c in categories], _MONTHS[like])
    _avoid_impossible(rng, days, months)
    order = rng.permutation(len(categories))
    return tuple(Assignment(categories[i], locations[i], days[i], months[i]) for i in order)


def _day_weight(like: Like, day: int) -> float:
    if like is not Like.SET3:
        return 6.0 + (day * 7) % 5 - (3.0 if day > 29 else 0.0)
    rest = 1138 - sum(_SET3_DAYS.values())
    return float(_SET3_DAYS.get(day, rest / (31 - len(_SET3_DAYS))))


def _spread(
    rng: np.random.Generator, wanted: Sequence[bool], weights: Sequence[float]
) -> list[int]:
    """Values 1, 2, ... in proportion to ``weights`` where one is ``wanted``, else 0."""
    values = rng.permutation(np.repeat(np.arange(1, len(weights) + 1), _quota(wanted, weights)))
    supply = iter(values.tolist())
    return [next(supply) if is_wanted else 0 for is_wanted in wanted]


def _quota(wanted: Sequence[bool], weights: Sequence[float]) -> np.ndarray:
    exact = np.asarray(weights, dtype=float) * sum(wanted) / sum(weights)
    floor = np.floor(exact).astype(int)
    largest = np.argsort(floor - exact, kind="stable")[: sum(wanted) - floor.sum()]
    floor[largest] += 1
    return floor


def _is_possible(day: int, month: int) -> bool:
    return not day or not month or day <= DAYS_OF_MONTH[month - 1]


def _avoid_impossible(rng: np.random.Generator, days: list[int], months: list[int]) -> None:
    """Swap months until there is no 31st of June; counts of days and months stay."""
    others = rng.permutation(len(days)).tolist()
    for i, day in enumerate(days):
        if _is_possible(day, months[i]):
            continue
        for j in others:
            both = months[j] and _is_possible(day, months[j]) and _is_possible(days[j], months[i])
            if both:
                months[i], months[j] = months[j], months[i]
                break
        else:
            days[i] = DAYS_OF_MONTH[months[i] - 1]
