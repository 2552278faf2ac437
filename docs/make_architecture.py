"""Writes the table of rooms in architecture.md again: packages, what they do, files and lines."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/architecture.md"
ORDER = (
    *("cli", "messages", "config", "dataset", "models", "training", "inference", "selection"),
    *("guarantees", "selftraining", "engines", "adaptation", "runs", "files", "workflows"),
    *("review", "report", "export", "integrations"),
)


def rooms_table() -> str:
    """One row per package; lines to the nearest ten."""
    library = ROOT / "src/surelabel"
    rows = [
        (
            "`surelabel/*.py`",
            "The public API, the shared nouns, the errors",
            sorted(library.glob("*.py")),
        )
    ]
    rows += [_package(library / name, f"`{name}/`") for name in ORDER]
    everything = sorted(library.rglob("*.py"))
    rows.append(("**the library**", "", everything))
    rows.append(_package(ROOT / "src/surelabel_studies", "`surelabel_studies/`"))
    lines = ["| Room | What it does | Files | Lines |", "|---|---|---|---|"]
    for name, what, files in rows:
        n_lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        lines.append(f"| {name} | {what} | {len(files)} | {round(n_lines, -1):,} |")
    return "\n".join(lines)


def _package(folder: Path, name: str) -> tuple[str, str, list[Path]]:
    front = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    what = (ast.get_docstring(front) or "").splitlines()[0].rstrip(".")
    return name, what, sorted(folder.rglob("*.py"))


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    marks = r"(<!-- rooms -->\n).*?(<!-- /rooms -->)"
    table = rooms_table()
    PAGE.write_text(re.sub(marks, lambda m: f"{m[1]}{table}\n{m[2]}", text, flags=re.S), "utf-8")
