from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "docs"), str(ROOT / "tests" / "cli")]

from cli_files import FAST, some, surelabel, write_dataset, write_labels  # noqa: E402

from make_options import options_page  # noqa: E402


def test_the_options_page_is_what_config_says() -> None:
    written = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert written == options_page(), "call make docs"


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]:
        links = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8"))
        for target, anchor in links:
            if target.startswith("http"):
                continue
            linked = page.parent / target if target else page
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    lines = [re.sub(r"\s+#.*", "", line) for line in shell.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("surelabel ")]
    assert len(commands) >= 7
    truth = write_dataset(tmp_path / "photos", 12)
    write_dataset(tmp_path / "more-photos", 2, seed=1)
    more = write_dataset(tmp_path / "more", 2, seed=2, start=100)
    write_labels(tmp_path / "more.csv", some(more, 1))
    other = write_dataset(tmp_path / "line-B", 36, seed=3)
    write_labels(tmp_path / "few-B.csv", some(other, 34))
    for _, verb, *rest in commands:
        if verb == "label":
            write_labels(tmp_path / rest[rest.index("--labels") + 1], some(truth, 5))
            rest += FAST
        if verb == "start":
            rest += ["--out", "runs/started"]  # the commands below are another way to runs/photos
        if verb in ("review", "start"):
            assert_serves([verb, *rest], tmp_path)
            continue
        done = surelabel(verb, *rest, cwd=tmp_path)
        allowed = (0, 4) if verb == "adapt" else (0,)  # 4: no guess is sure enough here
        assert done.returncode in allowed, f"{verb} {rest}: {done.stderr}"
    assert (tmp_path / "all.csv").exists()
    assert (tmp_path / "new.csv").exists()
    assert (tmp_path / "runs" / "line-B" / "annotations.parquet").exists()


def assert_serves(arguments: list[str], cwd: Path) -> None:
    """The review page serves until it is stopped."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "surelabel", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SURELABEL_CACHE": str(cwd / "cache")},
    )
    with process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.terminate()


def test_the_python_of_the_readme_names_what_is_public() -> None:
    import surelabel as package

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in re.findall(r"surelabel\.(\w+)\(", text):
        assert name in package.__all__
        assert callable(getattr(package, name))


def test_the_method_page_names_code_that_exists() -> None:
    text = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    packages = {folder.name for folder in (ROOT / "src" / "surelabel").iterdir() if folder.is_dir()}
    dotted = set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", text))
    named = {name for name in dotted if name.split(".")[0] in packages}
    assert len(named) >= 30
    assert not [name for name in sorted(named) if not exists(f"surelabel.{name}")]


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something inside one."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@pytest.mark.parametrize("word", ["TODO", "FIXME"])
def test_no_page_is_unfinished(word: str) -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        assert word not in page.read_text(encoding="utf-8")


def test_no_page_waits_for_its_figures() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")]:
        assert not re.search(r"^[A-Z]{6,}$", page.read_text(encoding="utf-8"), re.MULTILINE)
