"""Notebooks, in a real Jupyter kernel: the example, and what a cell shows while a run works."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))

from make_notebook import TARGET, executed, notebook  # noqa: E402
from surelabel.models.backbones import photos_installed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

SMALL_RUN = """
import numpy as np, surelabel
rng = np.random.default_rng(0)
truth = np.arange(120) % 2
images = rng.integers(0, 99, (120, 12, 12)).astype(np.uint8)
images[truth == 1, :6] += 99
run = surelabel.label(
    images, labels=np.where(np.arange(120) < 60, truth, -1), out="run", cache="cache",
    net="compact", steps=20, members=1, max_rounds=1, accept="tukey",
)
run
"""


class Listening(NotebookClient):
    """Keeps what a cell showed and replaced later."""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            shown.append(msg["content"]["data"].get("text/html", ""))
        return super().process_message(msg, cell, cell_index)


shown: list[str] = []


def outputs(made: Any) -> str:
    """Everything that the cells of an executed notebook show, as one text."""
    texts = []
    for cell in made.cells:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error", output
            data = output.get("data", {})
            texts.append(str(data.get("text/html") or data.get("text/plain") or output.get("text")))
    return "\n".join(texts)


def test_a_cell_shows_a_bar_while_it_works_and_the_run_at_the_end(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(SMALL_RUN)]
    made = nbformat.v4.new_notebook(cells=cells)
    place = {"metadata": {"path": str(tmp_path)}}
    shown.clear()
    Listening(made, timeout=300, kernel_name="python3", resources=place).execute()
    bars = [html for html in shown if "<progress" in html]
    assert len(bars) >= 2
    assert "<progress" not in shown[-1]
    assert "<table>" in shown[-1]
    assert len(made.cells[0].outputs) == 2
    assert re.search(r"<b>[^<]*\d+ of the 60 images", outputs(made))


def test_the_example_is_the_one_that_the_script_makes() -> None:
    kept = nbformat.read(TARGET, as_version=4)
    assert [cell.source for cell in kept.cells] == [cell.source for cell in notebook().cells]
    counts = re.findall(r"(\d+) labels by the run, (\d+) of them wrong", outputs(kept))
    assert len(counts) == 1


@pytest.mark.slow  # a quarter of a minute on a quiet machine, for the features of 208 photographs
def test_the_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    text = outputs(executed(notebook(), tmp_path / "work"))
    ((labeled, wrong),) = re.findall(r"(\d+) labels by the run, (\d+) of them wrong", text)
    assert int(labeled) > 100
    assert int(wrong) <= 4
