"""Why an image is left for people."""

from __future__ import annotations

import numpy as np

from surelabel.selection.reasons import Reason, reasons_left


def test_what_sticks_out_is_the_reason_and_a_clear_guess_is_never_called_ambiguous() -> None:
    usual = (np.full(8, 0.1), np.full(8, 0.1), np.full(8, 0.1))
    mutual = np.array([0.9, 0.2, 0.1, 0.1])
    expected = np.array([0.2, 0.9, 0.2, 0.1])
    outlier = np.array([False, False, False, True])
    probability = np.array([0.5, 0.5, 0.98, 0.98])
    found = reasons_left(mutual, expected, np.zeros(4), outlier, probability, usual)
    assert found == [Reason.UNFAMILIAR, Reason.AMBIGUOUS, Reason.BORDERLINE, Reason.OUTLIER]
    assert reasons_left(*(np.zeros(0),) * 3, np.zeros(0, bool), np.zeros(0), usual) == []
