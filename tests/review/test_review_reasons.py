from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from surelabel.review.reasons import Reason, gauges, ranks_of, reason_words, reasons_of


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


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, Reason.UNCLEAR),
        ({"margin": 0.9}, Reason.CLOSE_CALL),
        ({"mutual_information": 0.6}, Reason.UNFAMILIAR),
        ({"score": 0.05}, Reason.HELD_BACK),
        ({"guess": None, "score": np.nan, "margin": np.nan}, Reason.NEW),
    ],
)
def test_reasons_follow_the_measures(values: dict[str, float | str | None], reason: Reason) -> None:
    assert reasons_of(row(**values)).tolist() == [reason]


def test_the_runs_own_reason_wins_where_it_has_one() -> None:
    table = pd.concat([row(reason="too dark"), row(reason=None)], ignore_index=True)
    assert reasons_of(table).tolist() == ["too dark", Reason.UNCLEAR]


def test_every_reason_has_a_sentence() -> None:
    for reason in Reason:
        assert reason_words(reason).endswith(".")
    assert reason_words("too dark") == "Too dark."


def test_ranks_are_the_share_that_is_less_unsure() -> None:
    table = pd.concat([row(predictive_entropy=v) for v in (0.3, 0.1, 0.2)], ignore_index=True)
    assert ranks_of(table)["predictive_entropy"].tolist() == [1.0, 0.0, 0.5]


def test_an_image_that_was_not_predicted_has_no_measures_to_show() -> None:
    table = row(mutual_information=np.nan, expected_entropy=np.nan, predictive_entropy=np.nan)
    assert gauges(ranks_of(table).to_dict("records")[0]) == []
    assert gauges({}) == []
