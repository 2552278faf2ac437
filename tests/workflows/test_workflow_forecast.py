"""The forecast of a run, as a table and as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from certify_data import finish_round, label_rows, make_run
from PIL import Image

from surelabel.cli.main import run
from surelabel.errors import RunError
from surelabel.workflows.forecast import forecast_of


def test_more_certify_labels_cover_more_until_the_errors_begin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path, label_rows(range(0)), max_error="0.05")
    finish_round(folder, held=150)
    error, outlooks = forecast_of(folder)
    assert error == 0.05
    assert [o.n_certify for o in outlooks] == [100, 200]
    assert 0.6 < outlooks[-1].middle < 0.95
    picture = tmp_path / "forecast.png"
    assert run(["forecast", str(folder.path), "--json", "--figure", str(picture)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [o["n_certify"] for o in printed["outlooks"]] == [100, 200]
    with Image.open(picture) as image:
        assert image.width > 500


def test_a_handful_of_held_out_labels_forecasts_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    with pytest.raises(RunError, match="no finished round"):
        forecast_of(folder)
    finish_round(folder, held=5)
    with pytest.raises(RunError, match="5 held-out labels, too few"):
        forecast_of(folder)
