from __future__ import annotations

import numpy as np
import pandas as pd

from surelabel.review.queue import NOT_SEEN, gauges, ranks_of, reason_words, reasons_of
from surelabel.selection.reasons import Reason


def row(**values: float | str | None) -> pd.DataFrame:
    plain: dict[str, float | str | None] = {
        "guess": "cat",
        "score": 0.5,
        "threshold": 0.1,
        "mutual_information": 0.1,
        "expected_entropy": 0.4,
        "predictive_entropy": 0.5,
        "margin": 0.3,
    }
    return pd.DataFrame([{**plain, **values}])


def test_an_image_without_a_guess_was_not_seen_yet() -> None:
    table = pd.concat([row(reason="outlier"), row(guess=None, reason="")], ignore_index=True)
    assert reasons_of(table).tolist() == ["outlier", NOT_SEEN]


def test_every_reason_has_a_sentence() -> None:
    for reason in (*Reason, NOT_SEEN, ""):
        assert reason_words(reason).endswith(".")


def test_ranks_are_the_share_that_is_less_unsure() -> None:
    table = pd.concat([row(predictive_entropy=v) for v in (0.3, 0.1, 0.2)], ignore_index=True)
    assert ranks_of(table)["predictive_entropy"].tolist() == [1.0, 0.0, 0.5]


def test_an_image_that_was_not_predicted_has_no_measures_to_show() -> None:
    table = row(mutual_information=np.nan, expected_entropy=np.nan, predictive_entropy=np.nan)
    assert gauges(ranks_of(table).to_dict("records")[0]) == []
    assert gauges({}) == []
