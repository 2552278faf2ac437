"""Which guesses become labels, how much they count, and how wrong they can be. Pure functions."""

from surelabel.accept.bounds import most_wrong, zero_error_sample
from surelabel.accept.calibration import (
    expected_calibration_error,
    fit_temperature,
    reliability,
    temper,
)
from surelabel.accept.certify import (
    CertifySample,
    Count,
    Finding,
    Verdict,
    bound_at,
    certified_threshold,
    count_at,
)
from surelabel.accept.correction import Correction
from surelabel.accept.drift import Drift, drift
from surelabel.accept.forecast import Outlook, forecast
from surelabel.accept.likelihood import is_clear, losses_at_best
from surelabel.accept.look_alikes import Voice, heed, heed_held_out
from surelabel.accept.reasons import Reason, reasons_left
from surelabel.accept.sequence import most_wrong_any_time
from surelabel.accept.strangers import NO_FENCE, Fence, Neighbors, is_stranger, stranger_fence
from surelabel.accept.suspicious import suspicious_labels
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
from surelabel.accept.wishes import (
    REST,
    Wishes,
    certify_families,
    class_thresholds,
    families,
    parse_wishes,
)

__all__ = [
    "NOTHING",
    "NO_FENCE",
    "REST",
    "CertifySample",
    "Correction",
    "Count",
    "Drift",
    "Fence",
    "Finding",
    "Neighbors",
    "Outlook",
    "Reason",
    "Rule",
    "RuleKind",
    "Verdict",
    "Voice",
    "Wishes",
    "bound_at",
    "certified_threshold",
    "certify_families",
    "class_balanced",
    "class_thresholds",
    "count_at",
    "drift",
    "expected_calibration_error",
    "families",
    "fit_temperature",
    "forecast",
    "heed",
    "heed_held_out",
    "held_out_threshold",
    "inverse_uncertainty_weights",
    "is_clear",
    "is_stranger",
    "judge",
    "losses_at_best",
    "most_wrong",
    "most_wrong_any_time",
    "parse_rule",
    "parse_wishes",
    "phi",
    "quantile",
    "reasons_left",
    "reliability",
    "select",
    "stranger_fence",
    "suspicious_labels",
    "temper",
    "tukey_fence",
    "zero_error_sample",
]
