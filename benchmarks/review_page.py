"""The review page in Chromium: key press to the next painted image, the gallery and the map.

The run has 100,000 images of 2 megapixels: a real run on 60 photographs whose rows are repeated, so
that every image is decoded from a file and every table has its full length.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from surelabel.review.server import ReviewServer
    from surelabel.runs.folder import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "tests" / "review"))

N_PHOTOS, N_IMAGES = 60, 100_000
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


# Measures to the first task after the frame that shows every tile in view: from the click on the
# link, or without it from the beginning of the page's own load.
GALLERY = """
async (by_click) => {
  const start = by_click ? performance.now() : 0;
  if (by_click) document.querySelector("#step-list a[href='#gallery']").click();
  const inView = (tile) => tile.getBoundingClientRect().top < innerHeight;
  const isPainted = (tile) => tile.querySelector("img")?.complete;
  for (;;) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const tiles = [...document.querySelectorAll("#gallery-tiles .tile")];
    if (tiles.length && tiles.filter(inView).every(isPainted)) break;
  }
  const channel = new MessageChannel();
  const painted = new Promise((resolve) => { channel.port1.onmessage = resolve; });
  channel.port2.postMessage(null);
  await painted;
  return performance.now() - start;
}
"""

# Times between frames, and how long drawing takes within them, while the map is dragged.
FRAMES = """
() => {
  window.frames_ms = [];
  window.drawing_ms = [];
  const request = window.requestAnimationFrame;
  window.requestAnimationFrame = (run) => request((now) => {
    const start = performance.now();
    run(now);
    window.drawing_ms.push(performance.now() - start);
  });
  let last = null;
  const tick = (now) => {
    if (last !== null) window.frames_ms.push(now - last);
    last = now;
    request(tick);
  };
  request(tick);
}
"""


def write_photos(folder: Path, n: int) -> None:
    """Write n different photos of 2 megapixels: smooth noise, half of them greenish."""
    folder.mkdir()
    for number in range(n):
        rng = np.random.default_rng(number)
        coarse = rng.integers(0, 200, (12, 16, 3), dtype=np.uint8)
        coarse[..., number % 2] += 55
        photo = Image.fromarray(coarse).resize((1632, 1224), Image.Resampling.BICUBIC)
        photo.save(folder / f"{number:03d}.jpg")


def long_run(place: Path, n_images: int) -> RunFolder:
    """A run of one round on ``N_PHOTOS`` photographs, its rows repeated up to ``n_images``."""
    import surelabel
    from surelabel.config.settings import Config
    from surelabel.dataset.items import item_ids
    from surelabel.runs.embedding import Embedding, embedding_key
    from surelabel.runs.folder import RunFolder
    from surelabel.runs.rounds import HELD_OUT_TABLE, METRICS, POOL_TABLE

    write_photos(place / "photos", N_PHOTOS)
    lines = [f"{number:03d}.jpg,{'green' if number % 2 else 'red'}" for number in range(20)]
    (place / "labels.csv").write_text("\n".join(["path,label", *lines]), encoding="utf-8")
    config = Config(
        net="compact", image_size=16, steps=40, members=1, mc_samples=3, max_rounds=1,
        accept="top:20", cache=str(place / "cache"), threads=1,
    )  # fmt: skip
    short = surelabel.label(place / "photos", place / "labels.csv", place / "short", config=config)
    catalog, last = short.folder.catalog, short.folder.last_round()
    assert last is not None
    n_more = n_images - len(catalog)
    rng = np.random.default_rng(0)
    source = rng.integers(0, len(catalog), n_more)
    paths = np.array([f"folder {k // 1000:03d}/{k:06d}.jpg" for k in range(n_more)])
    ids = item_ids(paths.tolist())
    longer = replace(
        catalog,
        ids=np.concatenate([catalog.ids, ids]),
        paths=np.concatenate([catalog.paths, paths]),
        labels=np.concatenate([catalog.labels, np.full(n_more, -1)]),
        sources=np.concatenate([catalog.sources, np.full(n_more, "")]),
        splits=np.concatenate([catalog.splits, np.full(n_more, "pool")]),
        groups=np.concatenate([catalog.groups, np.full(n_more, "")]),
        digests=np.concatenate([catalog.digests, catalog.digests[source]]),
        files=np.concatenate([catalog.files, catalog.files[source]]),
        sizes=(n_images,),
    )
    about = {k: v for k, v in short.folder.about.items() if k in ("images", "labels", "seed")}
    folder = RunFolder.create(
        place / "run", config=short.folder.config, catalog=longer, about=about
    )
    partial = folder.begin_round(1)
    pool = last.read_table(POOL_TABLE)
    rows = pool.iloc[rng.integers(0, len(pool), n_more)].assign(id=ids)
    rows = rows.assign(probability=rows["probability"] * rng.uniform(0.6, 1, n_more))
    partial.write_table(POOL_TABLE, pd.concat([pool, rows], ignore_index=True))
    partial.write_table(HELD_OUT_TABLE, last.read_table(HELD_OUT_TABLE))
    partial.write_json(METRICS, last.metrics)
    folder.commit_round(partial)
    vectors = rng.standard_normal((n_images, 64)).astype(np.float16)
    xy = rng.uniform(-1, 1, (n_images, 2))
    Embedding(longer.ids, vectors, xy, n_images, embedding_key(folder)).save(folder)
    return folder


def key_times(page: Page, n: int) -> list[float]:
    """Milliseconds from each of ``n`` key presses to the next painted image."""
    page.evaluate(MEASURE)
    for number in range(n):
        page.wait_for_timeout(600)
        page.keyboard.press("x")
        page.wait_for_function(f"() => window.measured.length > {number}")
    times: list[float] = page.evaluate("window.measured")
    return times


def lost_keys(page: Page, n: int, every_ms: int = 300) -> int:
    """How many of ``n`` fast keys were not taken, because the next image was not there yet."""
    before = page.evaluate("window.measured.length")
    for _ in range(n):
        page.keyboard.press("x")
        page.wait_for_timeout(every_ms)
    page.wait_for_timeout(1000)
    taken: int = page.evaluate("window.measured.length") - before
    return n - taken


def map_times(page: Page) -> tuple[list[float], list[float]]:
    """Times between frames, and of drawing one, while the map is dragged about."""
    page.click("#show-map")
    page.wait_for_function("() => document.querySelectorAll('#map-legend li').length > 1")
    page.click("#map-move")
    box = page.locator("#map-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    for step in range(120):
        page.mouse.move(x + 100 * np.sin(step / 10), y + 60 * np.cos(step / 10))
    page.mouse.up()
    return page.evaluate("window.frames_ms"), page.evaluate("window.drawing_ms")


def figures(name: str, times: Sequence[float]) -> dict[str, float]:
    """Median and slowest twentieth."""
    return {
        f"{name}_median_ms": round(statistics.median(times), 1),
        f"{name}_p95_ms": round(float(np.percentile(times, 95)), 1),
    }


def measure(server: ReviewServer, n_keys: int) -> dict[str, Any]:
    """Drive the page of a served run."""
    from chromium import FLAGS
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        page.goto(server.link)
        page.wait_for_selector("#frame[data-state=ready]")
        keys = key_times(page, n_keys)
        lost = lost_keys(page, n_keys)
        opening = []
        for _ in range(3):
            opening.append(page.evaluate(GALLERY, True))
            page.click("#step-list a[href='#finish']")
            page.wait_for_selector("#frame[data-state=ready]")
        page.goto("about:blank")
        page.goto(f"{server.root}#gallery", wait_until="commit")
        loading = page.evaluate(GALLERY, False)
        frames, drawing = map_times(page)
        browser.close()
    return {
        **figures("key", keys),
        "fast_keys": n_keys,
        "fast_keys_lost": lost,
        "gallery_first_ms": round(opening[0], 1),
        "gallery_again_ms": round(min(opening[1:]), 1),
        "gallery_with_page_load_ms": round(loading, 1),
        **figures("map_frame", frames),
        **figures("map_drawing", drawing),
        "ratio": round(statistics.median(keys) / FRAME_MS, 2),
    }


def main(settings: Settings) -> dict[str, Any]:
    if shutil.which("chromium") is None:
        return {"skipped": "there is no chromium on PATH"}
    from surelabel.review.queue import Task
    from surelabel.review.server import Address, ReviewServer
    from surelabel.workflows.journey import plan_wish

    n_images = settings.size(settings.images, N_IMAGES, 300)
    with tempfile.TemporaryDirectory() as place:
        folder = long_run(Path(place), n_images)
        plan_wish(folder, None)  # the page of `surelabel start` begins with what is left
        task = Task(n_first=n_images)
        server = ReviewServer(folder, task, Address(), lambda _: None, "bench", guided=True)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            found = measure(server, 4 if settings.tiny else 40)
        finally:
            server.stop()
            thread.join()
    return {"images": n_images, "load": round(os.getloadavg()[0], 1), **found}
