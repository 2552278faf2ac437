"""Measures of uncertainty, on numpy arrays."""

from surelabel.uncertainty.measures import MEASURES, all_measures, entropy, measure

__all__ = ["MEASURES", "all_measures", "entropy", "measure"]
