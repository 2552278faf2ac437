"""Synthetic photographs of food packaging with use-by dates, drawn by code.

They stand in for the private photographs of the paper's food-packaging study: the same categories
and counts, several locations, faults of known difficulty. Whatever is shown of them has to say
that they are synthetic.
"""

from surelabel.datasets.use_by_dates.faults import BOUNDARY, Fault
from surelabel.datasets.use_by_dates.locations import LOCATIONS
from surelabel.datasets.use_by_dates.scene import Record, render
from surelabel.datasets.use_by_dates.sets import COUNTS, READABLE, Category, Like, like_named
from surelabel.datasets.use_by_dates.settings import Settings
from surelabel.datasets.use_by_dates.writer import Written, write_use_by_dates

__all__ = [
    "BOUNDARY",
    "COUNTS",
    "LOCATIONS",
    "READABLE",
    "Category",
    "Fault",
    "Like",
    "Record",
    "Settings",
    "Written",
    "like_named",
    "render",
    "write_use_by_dates",
]
