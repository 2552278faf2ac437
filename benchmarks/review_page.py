"""Time from a key press on the review page to the next painted image, in Chromium."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from settings import Settings

sys.path.append(str(Path(__file__).parents[1] / "tests" / "review"))

FRAME_MS = 1000 / 60
"""One frame of a usual screen: no page can be faster."""

# Measures from the key event to the first task after the frame that shows the decoded image.
MEASURE = """
() => {
  window.measured = [];
  let pressed = null;
  addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  new MutationObserver(async () => {
    const start = pressed;
    const image = document.querySelector("#frame img");
    if (start === null || !image) return;
    pressed = null;
    await image.decode();
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => window.measured.push(performance.now() - start);
      channel.port2.postMessage(null);
    });
  }).observe(document.querySelector("#frame"), { childList: true });
}
"""


def write_photos(folder: Path, n: int) -> None:
    """Write n different photos of 2 megapixels: smooth noise."""
    folder.mkdir()
    for number in range(n):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        coarse.resize((1632, 1224), Image.Resampling.BICUBIC).save(folder / f"{number:03d}.jpg")


def main(settings: Settings) -> dict[str, Any]:
    if shutil.which("chromium") is None:
        return {"skipped": "there is no chromium on PATH"}
    from chromium import FLAGS
    from playwright.sync_api import sync_playwright

    from surelabel.config.settings import Config
    from surelabel.review.queue import Task
    from surelabel.review.server import Address, ReviewServer
    from surelabel.workflows.first_labels import begin_unlabeled

    n = 8 if settings.tiny else 60
    with tempfile.TemporaryDirectory() as place:
        write_photos(Path(place) / "photos", n)
        config = Config(cache=str(Path(place) / "cache"))
        folder = begin_unlabeled(Path(place) / "photos", Path(place) / "run", config)
        server = ReviewServer(folder, Task(), Address(), lambda _: None, "bench")
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            with sync_playwright() as playwright:
                path = shutil.which("chromium")
                browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(server.link)
                page.wait_for_selector("#frame[data-state=ready]")
                page.evaluate(MEASURE)
                for number in range(n - 1):
                    page.wait_for_timeout(600)
                    page.keyboard.press("x")
                    page.wait_for_function(f"() => window.measured.length > {number}")
                times = page.evaluate("window.measured")
                browser.close()
        finally:
            server.stop()
            thread.join()
    return {
        "images": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(float(np.percentile(times, 95)), 1),
        "ratio": round(statistics.median(times) / FRAME_MS, 2),
    }
