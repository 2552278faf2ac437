"""Write docs/example.ipynb: the cells below, executed by a real kernel in an empty folder.

Call it after a change of what notebooks show: `python docs/make_notebook.py`. It takes seconds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TARGET = Path(__file__).with_name("example.ipynb")
CELLS = (
    """# Photographs in a notebook

surelabel labels a folder of photographs from a few labels. Here the photographs are cut from the
two pictures that come with scikit-learn, so this page needs no data. It needs the extra `photos`:
`pip install 'surelabel[photos]'`.""",
    """from pathlib import Path

import pandas as pd
from PIL import Image
from sklearn.datasets import load_sample_image

import surelabel

Path("photos").mkdir()
for name in ("china", "flower"):
    picture = Image.fromarray(load_sample_image(f"{name}.jpg"))
    corners = [(x, y) for y in range(0, 300, 40) for x in range(0, 520, 40)]
    for number, (x, y) in enumerate(corners):
        tile = picture.crop((x, y, x + 120, y + 120))
        tile.save(f"photos/{name}-{number:03d}.jpg")
len(list(Path("photos").iterdir()))""",
    "Draw images at random and label them. The names of the files do that here; surelabel does not "
    "look at them.",
    """paths = pd.Series(sorted(path.name for path in Path("photos").iterdir()))
drawn = paths.sample(50, random_state=0)
labels = pd.DataFrame({"path": drawn, "label": drawn.str.split("-").str[0]})
labels.to_csv("labels.csv", index=False)
labels.head(3)""",
    "While it works, the cell shows a bar and a row per round. At the end it shows the run: what "
    "was labeled, how wrong that may be.",
    """run = surelabel.label("photos/", labels="labels.csv", out="runs/tiles", net="lite0")
run""",
    "The figures of each round:",
    "run.rounds",
    "One row per image, labeled or not, with the uncertainty by many measures. The least sure:",
    """table = run.annotations
columns = ["path", "label", "guess", "source", "probability", "reason"]
table.sort_values("score", ascending=False)[columns].head(4)""",
    "Because the names tell the truth, we can count what is wrong:",
    """by_run = table[table["source"] == "pseudo"]
wrong = by_run[by_run["label"] != by_run["path"].str.split("-").str[0]]
print(f"{len(by_run)} labels by the run, {len(wrong)} of them wrong")""",
    "The images that it left for you:",
    """left = table.loc[table["source"] == "", "path"].head(8)
sheet = Image.new("RGB", (8 * 64, 64), "white")
for number, path in enumerate(left):
    sheet.paste(Image.open(f"photos/{path}").resize((60, 60)), (number * 64, 2))
sheet""",
    "How many more labels would certify an error of 5 %? And the whole table, for another program:",
    "run.forecast(max_error=0.05)",
    """run.export("csv", "tiles.csv")
pd.read_csv("tiles.csv").shape""",
)
"""Text and code in turns, as it comes; code is what does not begin like prose."""


def notebook() -> Any:
    """The cells, not executed."""
    new = nbformat.v4
    made = new.new_notebook(metadata={"language_info": {"name": "python"}})
    for number, source in enumerate(CELLS):
        if _is_code(source):
            cell = new.new_code_cell(source, id=f"cell-{number}")
        else:
            cell = new.new_markdown_cell(source, id=f"cell-{number}")
        made.cells.append(cell)
    return made


def executed(made: Any, folder: Path) -> Any:
    """The same notebook with its outputs, after a kernel ran it in ``folder``."""
    client = NotebookClient(
        made, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def _is_code(source: str) -> bool:
    try:
        compile(source, "cell", "exec")
    except SyntaxError:
        return False
    return True


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = executed(notebook(), Path(folder))
    for cell in done.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
            output.get("data", {}).pop("image/jpeg", None)
    done.metadata["language_info"] = {"name": "python"}
    TARGET.write_text(nbformat.writes(done) + "\n", encoding="utf-8")
    print(f"wrote {TARGET}", file=sys.stderr)


if __name__ == "__main__":
    main()
