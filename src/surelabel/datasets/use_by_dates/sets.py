"""The four sets of the paper's food-packaging study: their categories and how many of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from surelabel.errors import OptionError

MAX_SCALE = 10.0


class Like(StrEnum):
    """Which set of the paper the synthetic one is modelled on."""

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
"""The paper's table. Its rows for set 2 sum to 6,715; its text says 6,739."""


def like_named(name: str) -> Like:
    """The set called ``name``, or a sentence on which there are."""
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
