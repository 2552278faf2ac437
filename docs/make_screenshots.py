"""Takes the screenshots of the review page and the report: ``python docs/make_screenshots.py RUN``.

They show the real page on a copy of the run. A second argument names another folder to write to.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from surelabel.report.page import write_report
from surelabel.review.queue import Task
from surelabel.review.server import Address, ReviewServer
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.certify_labels import ids_to_certify
from surelabel.workflows.embedding import embed

DOCS = Path(__file__).resolve().parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 760}
REPORT: ViewportSize = {"width": 1160, "height": 1330}
N_CERTIFY = 300


def main(run: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        copied = Path(place) / "photos"
        shutil.copytree(run, copied)
        take_report(browser, copied, target)
        folder = RunFolder.open(copied)
        with reviewing(browser, folder, Task()) as page:
            take_wide(page, target)
        embed(folder)
        with reviewing(browser, folder, Task()) as page:
            take_gallery(page, target)
        with reviewing(browser, folder, Task(), PHONE) as page:
            page.emulate_media(color_scheme="dark")
            wait_for_image(page)
            page.screenshot(path=target / "review-phone.png")
        ids = tuple(ids_to_certify(folder, N_CERTIFY).tolist())
        with reviewing(browser, folder, Task(Purpose.CERTIFY, ids)) as page:
            page.screenshot(path=target / "review-certify.png")
        browser.close()


@contextlib.contextmanager
def reviewing(
    browser: Browser, folder: RunFolder, task: Task, size: ViewportSize = WIDE
) -> Iterator[Page]:
    """The review page on a wide screen or a phone, after a few answers."""
    server = ReviewServer(folder, task, Address(), lambda _: None, "ann")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        page = browser.new_page(
            viewport=size, has_touch=size is PHONE, is_mobile=size is PHONE, color_scheme="light"
        )
        page.goto(server.link)
        for _ in range(6):
            wait_for_image(page)
            page.keyboard.press("1" if task.blind else "Space")
        wait_for_image(page)
        yield page
        page.close()
    finally:
        server.stop()
        thread.join()


def take_wide(page: Page, target: Path) -> None:
    page.screenshot(path=target / "review-light.png")
    page.emulate_media(color_scheme="dark")
    wait_for_image(page)
    page.screenshot(path=target / "review-dark.png")
    page.emulate_media(color_scheme="light")
    page.keyboard.press("g")
    page.wait_for_selector(".tile")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.tile img')].every((image) => image.naturalWidth)"
    )
    wait_for_image(page)
    page.screenshot(path=target / "review-grid.png")


def take_gallery(page: Page, target: Path) -> None:
    page.click("#open-gallery")
    page.wait_for_function(
        "() => { const images = [...document.querySelectorAll('#gallery-tiles img')];"
        " return images.length && images.every((image) => image.naturalWidth); }"
    )
    page.screenshot(path=target / "gallery.png")
    page.click("#show-map")
    page.wait_for_function("() => document.querySelectorAll('#map-legend li').length > 1")
    page.wait_for_timeout(700)
    page.screenshot(path=target / "gallery-map.png")


def take_report(browser: Browser, run: Path, target: Path) -> None:
    """The beginning of the report, as a person opens it."""
    page = browser.new_page(viewport=REPORT)
    _shorten_paths(RunFolder.open(run))
    with contextlib.chdir(run.parent):
        page.goto(write_report(RunFolder.open(run.name)).resolve().as_uri())
    page.screenshot(path=target / "report.png")
    page.close()


def wait_for_image(page: Page) -> None:
    page.wait_for_selector("#frame[data-state=ready]", state="attached")
    page.wait_for_timeout(700)


def _shorten_paths(folder: RunFolder) -> None:
    """Leave out where the images are on this machine."""
    folder.note({name: Path(folder.about[name]).name for name in ("images", "labels")})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else DOCS)
