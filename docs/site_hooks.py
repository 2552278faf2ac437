"""Makes the pages of the repository into pages of the site; ``mkdocs.yml`` names this file.

README, changelog, contributing guide, license and benchmarks lie outside of ``docs/``, where people
look for them. On the site they are pages like the others. Links are written for the repository and
are changed here to where the site has the page. The example notebook becomes a page, too.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Where on the site the files outside of ``docs/`` are."""
NOTEBOOK = "example.ipynb"
_SOURCES = {page: source for source, page in PAGES.items()}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside of ``docs/``."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "LICENSE":
            text = f"# License\n\n```text\n{text}\n```\n"
        files.append(File.generated(config, page, content=text))
    text, pictures = notebook_page(ROOT / "docs" / NOTEBOOK)
    files.append(File.generated(config, "example.md", content=text))
    for name, content in pictures.items():
        files.append(File.generated(config, name, content=content))
    return files


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """An executed notebook as Markdown, and the pictures in it by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"example-{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Output of the cell above]({name})")
            elif "text/html" in data:
                parts.append(f"<div class='output'>{_without_styles(data['text/html'])}</div>")
            else:
                text = "".join(data.get("text/plain") or output.get("text", ""))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def _without_styles(lines: list[str] | str) -> str:
    """HTML in one line, as Markdown wants it, without pandas' styles."""
    text = re.sub(r"<style.*?</style>", "", "".join(lines), flags=re.DOTALL)
    return (
        re.sub(r">\s+<", "><", text).replace("\n", " ").replace(' border="1" class="dataframe"', "")
    )


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Change links of the repository to links of the site."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return _LINK.sub(lambda match: _site_link(match, posixpath.dirname(source)), markdown)


def _site_link(match: re.Match[str], folder: str) -> str:
    image, text, target, anchor = match[1], match[2], match[3], match[4] or ""
    if not target or ":" in target:
        return match[0]
    path = posixpath.normpath(posixpath.join(folder, target))
    if path in PAGES:
        return f"{image}[{text}]({PAGES[path]}{anchor})"
    if path == f"docs/{NOTEBOOK}":
        return f"{image}[{text}](example.md)"
    if path.startswith("docs/") and not path.endswith(".py"):
        return f"{image}[{text}]({path.removeprefix('docs/')}{anchor})"
    return text  # a file of the repository that the site does not show
