"""From the warning of ``predict`` to an adapted run: which images to label first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adapt_data import KS, NAMES, old_run
from PIL import ImageOps
from workflow_data import stripes, truth, write_stripes

from surelabel.adaptation.first_labels import draw_for_adaptation
from surelabel.api import Run
from surelabel.cli.main import run as command_line
from surelabel.errors import InputError, OptionError, RunError
from surelabel.runs.folder import RunFolder


@pytest.fixture(name="run2", scope="module")
def fixture_run2(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return old_run(tmp_path_factory.mktemp("old"), out_of_distribution=True)


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Negatives of the old stripes."""
    folder = tmp_path_factory.mktemp("new")
    for name in NAMES:
        for number in range(100, 170):
            ImageOps.invert(stripes(name, number)).save(folder / f"{name}-{number}.png")
    return folder


def test_the_warning_leads_to_labels_and_these_to_an_adapted_run(
    run2: Run, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = str(run2.path), str(images)
    assert command_line(["predict", old, new, "--out", str(tmp_path / "guesses.csv")]) == 0
    assert "--adapt-from" in capsys.readouterr().err
    drawn = tmp_path / "few.csv"
    start = ["draw", new, "-n", "100", "--adapt-from", old, "--out", str(drawn)]
    assert command_line(start) == 0
    assert f"surelabel adapt {old} {new}" in capsys.readouterr().err
    table = pd.read_csv(drawn, dtype=str)
    assert table["path"].is_unique
    assert table["drawn"].value_counts().to_dict() == {"random": 50, "uncertain": 50}
    assert 8 <= (table["drawn"][:20] == "random").sum() <= 12
    table["label"] = table["path"].map(truth)
    table.to_csv(drawn, index=False)
    adapted = run2.adapt(images, drawn, tmp_path / "adapted", ks=KS)
    catalog = adapted.folder.catalog
    reports = set(catalog.paths[catalog.splits == "tune"].tolist())
    at_random = set(table["path"][table["drawn"] == "random"])
    assert len(reports) >= 20
    assert reports <= at_random


def test_unclear_images_are_drawn_more_often(run2: Run, tmp_path: Path) -> None:
    """The old run is sure of stripes and has never seen images without them."""
    for name in NAMES:
        write_stripes(tmp_path / "mixed", name, range(300, 400))
    write_stripes(tmp_path / "mixed", "plain", range(100))
    table = draw_for_adaptation(run2.folder, tmp_path / "mixed", 60, 0)
    unknown = table["path"].str.startswith("plain")
    chosen = table["drawn"] == "uncertain"
    assert unknown[chosen].mean() > 0.3
    again = draw_for_adaptation(run2.folder, tmp_path / "mixed", 60, 0)
    assert again.equals(table)
    other = draw_for_adaptation(run2.folder, tmp_path / "mixed", 60, 1)
    assert not np.array_equal(other["path"], table["path"])


def test_what_cannot_be_drawn_gets_a_sentence(run2: Run, images: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="59 images are too few"):
        draw_for_adaptation(run2.folder, images, 59, 0)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=str(tmp_path / "none")):
        draw_for_adaptation(run2.folder, tmp_path / "none", 60, 0)
    RunFolder.create(
        tmp_path / "begun", config=run2.config, catalog=run2.folder.catalog, about={"seed": 0}
    )
    with pytest.raises(RunError, match="no trained nets"):
        draw_for_adaptation(RunFolder.open(tmp_path / "begun"), images, 60, 0)
    base = ["draw", str(images), "--adapt-from", str(run2.path), "--out", str(tmp_path / "x.csv")]
    assert command_line([*base, "--strategy", "coverage"]) == 2
    assert not (tmp_path / "x.csv").exists()
