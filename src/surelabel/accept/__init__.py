"""Which guesses become labels, and how much they count. Pure functions on arrays."""

from surelabel.accept.thresholds import (
    NOTHING,
    Rule,
    RuleKind,
    class_balanced,
    held_out_threshold,
    judge,
    parse_rule,
    quantile,
    select,
    tukey_fence,
)
from surelabel.accept.weights import inverse_uncertainty_weights, phi

__all__ = [
    "NOTHING",
    "Rule",
    "RuleKind",
    "class_balanced",
    "held_out_threshold",
    "inverse_uncertainty_weights",
    "judge",
    "parse_rule",
    "phi",
    "quantile",
    "select",
    "tukey_fence",
]
