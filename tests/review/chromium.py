"""Chromium for the tests: the one on PATH, without a profile."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from surelabel.review.server import ReviewServer

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

PATIENCE_MS = 180_000
"""How long to wait for something to happen. Only a failure takes as long; training and its report
take a minute on cores that eight other programs share."""

expect.set_options(timeout=PATIENCE_MS)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; the test is skipped, with the reason, where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium on PATH (on Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        except Error as error:
            pytest.skip(f"chromium cannot be started: {error}")
        with contextlib.closing(browser):
            yield browser


@contextlib.contextmanager
def opened(
    browser: Browser,
    server: ReviewServer,
    reviewer: str = "",
    expected: str = "net::ERR_FAILED",
    **context: object,
) -> Iterator[Page]:
    """A fresh browser profile with the page open; an error in the page fails the test.

    An error that the test provokes on purpose has ``expected`` in its text.
    """
    problems: list[str] = []
    profile = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})  # type: ignore[arg-type]
    with contextlib.closing(profile):
        profile.set_default_timeout(PATIENCE_MS)
        # Chromium takes a moment to send the requests of an open page through Playwright. With a
        # route from the start, one that a test adds later is in force at once.
        profile.route("**/no-request-asks-for-this", lambda route: route.abort())
        page = profile.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: _note(problems, message, expected))
        page.goto(server.link)
        page.locator("#pace", has_text=" of ").wait_for()
        if reviewer:
            page.fill("#reviewer", reviewer)
            page.locator("#reviewer").blur()
        yield page
    assert problems == []


def _note(problems: list[str], message: ConsoleMessage, expected: str) -> None:
    if message.type == "error" and expected not in message.text:
        problems.append(message.text)


def shown(page: Page) -> str:
    """The path of the image on the stage."""
    return page.locator("#path").inner_text()


def ready(page: Page) -> str:
    """Wait until the image can be answered; its path."""
    page.wait_for_selector("#frame[data-state=ready]")
    return shown(page)


def saved(page: Page) -> None:
    """Wait until every answer was acknowledged."""
    page.wait_for_function("() => document.body.dataset.waiting === '0'")
