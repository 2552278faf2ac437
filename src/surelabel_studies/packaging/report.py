"""The report of the packaging study as files."""

from __future__ import annotations

import json
from pathlib import Path

from surelabel.files.atomic import atomic_write_bytes
from surelabel_studies.packaging.figures import draw_packaging
from surelabel_studies.packaging.results import Found
from surelabel_studies.packaging.tables import tables
from surelabel_studies.packaging.verdicts import packaging_verdicts


def write_packaging_report(found: Found, folder: Path) -> str:
    """Tables, verdicts, figures with captions and plain figures; returns tables and verdicts."""
    table, verdicts = tables(found), packaging_verdicts(found)
    pages = {
        "table.md": table,
        "verdicts.md": verdicts,
        "results.json": json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n",
    }
    for name, text in pages.items():
        atomic_write_bytes(folder / name, text.encode())
    captions = draw_packaging(found, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    atomic_write_bytes(folder / "figures.md", "\n".join(shown).encode())
    return f"{table}\n{verdicts}"
