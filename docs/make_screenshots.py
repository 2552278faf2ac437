"""Takes the pictures of the review page and of the report: ``python docs/make_screenshots.py RUN``.

They are of the real page on a copy of the run.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from surelabel.report.page import write_report
from surelabel.review.queue import Task
from surelabel.review.server import Address, ReviewServer
from surelabel.runs.folder import RunFolder

DOCS = Path(__file__).resolve().parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE = {"width": 1280, "height": 800}


def wait(page: Page) -> None:
    page.wait_for_selector("#frame[data-state=ready]", state="attached")
    page.wait_for_timeout(700)


def take(page: Page, name: str) -> None:
    page.screenshot(path=DOCS / f"review-{name}.png")


def take_all(server: ReviewServer) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
        page.goto(server.link)
        wait(page)
        for _ in range(6):
            page.keyboard.press("Space")
            wait(page)
        page.fill("#reviewer", "ann")
        page.locator("#reviewer").blur()
        take(page, "light")
        page.emulate_media(color_scheme="dark")
        wait(page)
        take(page, "dark")
        page.set_viewport_size({"width": 390, "height": 760})
        wait(page)
        take(page, "phone")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        page.keyboard.press("g")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.tile img')].every((image) => image.complete)"
        )
        wait(page)
        take(page, "grid")
        browser.close()


def take_report(run: Path) -> None:
    """The beginning of the report, as a person opens it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1160, "height": 1330})
        _shorten_paths(run / "run.json")
        with contextlib.chdir(run.parent):
            page.goto(write_report(RunFolder.open(run.name)).resolve().as_uri())
        page.screenshot(path=DOCS / "report.png")
        browser.close()


def _shorten_paths(about: Path) -> None:
    """Where the images lie on this machine is nobody's business."""
    facts = json.loads(about.read_text(encoding="utf-8"))
    names = {name: Path(facts[name]).name for name in ("images", "labels")}
    about.write_text(json.dumps({**facts, **names}), encoding="utf-8")


def main(run: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place) / "photos"
        shutil.copytree(run, copied)
        take_report(copied)
        server = ReviewServer(RunFolder.open(copied), Task(), Address(), lambda _: None, "ann")
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            take_all(server)
        finally:
            server.stop()
            thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
