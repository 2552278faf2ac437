"""The whole way in a real browser: from a folder of images to an exported dataset with a promise.

``surelabel start`` is the only command. In the second test its server is killed at every step.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import PATIENCE_MS, chromium, ready, saved
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from review_data import wait_until, write_colors
from workflow_data import tiny

from surelabel.messages.guarantees import certification_sentences
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.lock import is_locked
from surelabel.workflows.journey import Journey, Step

N_FIRST = 20


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def blur(path: Path) -> None:
    """Make an image hard: red and green are nearly the same in it."""
    pixels = np.asarray(Image.open(path)).astype(float)
    mean = pixels[..., :2].mean(axis=-1, keepdims=True)
    pixels[..., :2] += 0.9 * (mean - pixels[..., :2])
    Image.fromarray(pixels.astype(np.uint8)).save(path)


class Start:
    """``surelabel start`` on 60 images, its page in a browser, and what a person does there."""

    def __init__(self, browser: Browser, place: Path, killed: bool = False) -> None:
        self.place, self.killed = place, killed
        self.truth = write_colors(place / "photos", 30)
        for name in list(self.truth)[::6]:
            blur(place / "photos" / name)
        (place / "photos" / "broken.png").write_bytes(b"no image")
        config = tiny(place / "cache", steps=30, max_rounds=1, accept="top:20")
        (place / "fast.toml").write_text(config.to_toml(), encoding="utf-8")
        self._context = browser.new_context(viewport={"width": 1280, "height": 800})
        self._context.set_default_timeout(PATIENCE_MS)
        self._page: Page | None = None
        self._process: subprocess.Popen[str] | None = None
        self.problems: list[str] = []
        self.open()

    @property
    def page(self) -> Page:
        assert self._page is not None
        return self._page

    @property
    def folder(self) -> RunFolder:
        return RunFolder.open(self.place / "run")

    def open(self) -> None:
        command = [sys.executable, "-u", "-m", "surelabel", "start", "photos", "--out", "run"]
        self._process = subprocess.Popen(
            [*command, "--config", "fast.toml", "--no-browser"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.place,
            env={**os.environ, "USER": "ann"},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        lines = iter(self._process.stdout.readline, "")
        link = next(word for line in lines for word in line.split() if "?token=" in word)
        self._page = self._context.new_page()
        self._page.on("pageerror", lambda error: self.problems.append(str(error)))
        self._page.goto(link)
        self._page.wait_for_selector("[aria-current=step]")

    def crash(self) -> None:
        """Kill the server, if this is the test that does, and open the page of a new one."""
        if self.killed:
            self.close()
            self.open()

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def end(self) -> None:
        self.close()
        self._context.close()
        wait_until(lambda: not is_locked(self.place / "run" / "lock"))

    def is_at(self, step: str) -> None:
        expect(self.page.locator("[aria-current=step]")).to_have_attribute("href", f"#{step}")

    def answer(self, n: int) -> None:
        """Give the next ``n`` images their color; fewer if no more are asked about."""
        self.page.wait_for_selector("#frame[data-state=ready]:visible, #finished:visible")
        for _ in range(n):
            if self.page.locator("#finished").is_visible():
                break
            path = ready(self.page)
            self.page.keyboard.press("1" if self.truth[path] == "red" else "2")
            self.page.wait_for_function(
                "path => document.getElementById('path').textContent !== path"
                " || !document.getElementById('finished').hidden",
                arg=path,
            )
        saved(self.page)


@contextlib.contextmanager
def started(browser: Browser, place: Path, killed: bool = False) -> Iterator[Start]:
    start = Start(browser, place, killed)
    try:
        yield start
        assert start.problems == []
    finally:
        start.end()


def to_first_labels(start: Start) -> None:
    start.is_at("look")
    expect(start.page.locator("#guide")).to_contain_text("60")
    start.page.get_by_text("Which files cannot be used").click()
    with start.page.expect_response(
        re.compile("/api/journey")
    ):  # as when something goes on meanwhile
        start.page.evaluate("dispatchEvent(new Event('result'))")
    expect(start.page.locator("#guide")).to_contain_text("broken.png")
    expect(start.page.get_by_text("broken.png")).to_be_visible()
    start.crash()
    start.page.get_by_role("button", name="Continue").click()
    start.page.fill("#class-names", "red\ngreen")
    start.page.get_by_role("button", name="Save and label").click()
    start.is_at("labels")
    ready(start.page)
    start.crash()
    start.is_at("labels")
    expect(start.page.locator(".class .name")).to_have_text(["red", "green"])


def to_training(start: Start) -> None:
    start.answer(1)
    expect(start.page.locator("#goal button")).to_be_disabled()
    wanted = Journey(start.folder).n_wanted
    expect(start.page.locator("#pace")).to_contain_text(f"1 of {wanted}")
    start.answer(N_FIRST - 1)
    given = start.folder.answers.standing(purpose=Purpose.FIRST)
    assert len(given) == N_FIRST
    start.crash()
    assert start.folder.answers.standing(purpose=Purpose.FIRST) == given
    expect(start.page.locator("#goal")).to_contain_text(str(N_FIRST))
    start.page.locator("#goal button").click()
    start.is_at("train")
    start.page.click("#start-training")
    if start.killed:
        wait_until(lambda: is_locked(start.place / "run" / "lock"))
    start.crash()
    start.page.goto(start.page.url.partition("#")[0] + "#train")
    expect(start.page.get_by_role("button", name="your wish")).to_be_visible()
    assert len(start.folder.finished_rounds()) == 1


def to_promise(start: Start) -> None:
    start.page.get_by_role("button", name="your wish").click()
    expect(start.page.locator(".choice")).to_have_count(4)
    start.page.get_by_text("Answers until the dataset is finished").click()
    by_hand = start.page.get_by_role("region", name="Ways to finish").get_by_text("by hand")
    expect(by_hand).to_be_visible()
    start.crash()
    start.is_at("wish")
    start.page.locator(".choice").nth(3).click()
    start.answer(3)
    start.crash()
    start.is_at("wish")
    assert len(start.folder.answers.standing(purpose=Purpose.CERTIFY)) == 3
    start.answer(60)
    told = start.page.evaluate("fetch('/api/counts').then((found) => found.json())")["certify"]
    expect(start.page.locator("#finished-text")).to_have_text(told["text"])
    start.crash()
    start.page.click("#finished-result")
    expect(start.page.get_by_role("heading", name="promise")).to_be_visible()
    start.crash()
    (record,) = start.folder.read_certifications()
    given = start.folder.answers.standing(purpose=Purpose.CERTIFY)
    assert set(record["certify_ids"]) == set(given)


def to_export(start: Start) -> None:
    start.page.goto(start.page.url.partition("#")[0] + "#finish")
    left = Journey(start.folder).summary.n_left
    start.answer(min(2, left))
    start.crash()
    start.page.goto(start.page.url.partition("#")[0] + "#finish")
    start.answer(left)
    wait_until(lambda: Journey(start.folder).is_complete)
    expect(start.page.locator("#goal")).to_contain_text("Every image")
    expect(start.page.locator("#goal")).not_to_contain_text("Train")  # it would end the promise
    correct_in_gallery(start)
    start.crash()
    start.page.goto(start.page.url.partition("#")[0] + "#done")
    start.page.get_by_role("button", name="Write labels").click()
    expect(start.page.locator("#export-said")).to_contain_text("run-labels.csv")
    with start.page.expect_download() as download:
        start.page.get_by_role("link", name="Download csv").click()
    assert download.value.suggested_filename == "run.csv"


def correct_in_gallery(start: Start) -> None:
    """A person looks at labels of the run, confirms one, and the promise stays."""
    start.page.goto(start.page.url.partition("#")[0] + "#gallery")
    start.page.wait_for_selector("#gallery-tiles .tile img")
    start.crash()
    start.page.goto(start.page.url.partition("#")[0] + "#gallery")
    with start.page.expect_response("**/api/gallery?*source=pseudo*"):
        start.page.select_option("#filter-source", "=pseudo")
    tile = start.page.locator("#gallery-tiles .tile").first
    expect(start.page.locator("#gallery-view")).to_be_visible()
    path = (tile.get_attribute("title") or "").strip()
    start.page.wait_for_function(
        "() => document.querySelector('#gallery-tiles .tile img')?.naturalWidth > 0"
    )
    tile.click()
    start.page.keyboard.press("1" if start.truth[path] == "red" else "2")
    saved(start.page)
    wait_until(lambda: path in reviewed_paths(start))
    assert Journey(start.folder).is_certified


def reviewed_paths(start: Start) -> set[str]:
    catalog = start.folder.catalog
    ids = np.array(list(start.folder.answers.standing()), dtype=np.str_)
    return set(catalog.paths[catalog.rows(ids)].tolist())


def check_result(start: Start) -> None:
    journey = Journey(start.folder)
    assert journey.current() is Step.DONE
    with (start.place / "run-labels.csv").open(newline="", encoding="utf-8") as file:
        labels = {row["path"]: row["label"] for row in csv.DictReader(file)}
    assert labels.keys() == start.truth.keys()
    wrong = sum(labels[path] != color for path, color in start.truth.items())
    assert journey.summary.certification is not None
    assert journey.summary.certification.holds
    assert wrong <= 0.1 * len(labels), "the promise is kept"
    promise = certification_sentences(journey.summary)[0]
    expect(start.page.locator("#guide")).to_contain_text(promise)


@pytest.mark.parametrize("killed", [False, True], ids=["undisturbed", "killed at every step"])
def test_from_a_folder_of_images_to_a_dataset(
    browser: Browser, tmp_path: Path, killed: bool
) -> None:
    with started(browser, tmp_path, killed) as start:
        to_first_labels(start)
        to_training(start)
        to_promise(start)
        to_export(start)
        check_result(start)
        if not killed:
            check_accessible(start)


def check_accessible(start: Start) -> None:
    """axe-core finds nothing on any step, wide and narrow, light and dark; nothing is cut off."""
    page, root = start.page, start.page.url.partition("#")[0]
    for width, height, scheme in ((1280, 800, "light"), (390, 844, "dark"), (640, 400, "light")):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        for step in (*Step, "gallery"):
            page.goto(f"{root}#{step}")
            here = page.locator("#step-list [aria-current]")
            expect(here).to_have_attribute("href", f"#{step}")
            found = Axe().run(page, "body").response["violations"]
            faults = [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]
            assert faults == [], f"{step} at {width}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, step
