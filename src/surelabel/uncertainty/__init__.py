"""Measures of uncertainty, and how well they tell right from wrong; on numpy arrays."""

from surelabel.uncertainty.measures import MEASURES, all_measures, entropy, measure
from surelabel.uncertainty.selective_risk import augrc, aurc, risk_coverage

__all__ = [
    "MEASURES",
    "all_measures",
    "augrc",
    "aurc",
    "entropy",
    "measure",
    "risk_coverage",
]
