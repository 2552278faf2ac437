"""Where the nets looked: the shade over an image, on the page and in a browser."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from chromium import chromium, opened, ready
from PIL import Image
from playwright.sync_api import expect
from review_data import Page, copy_run, serving

import surelabel
from surelabel.models.backbones import photos_installed
from surelabel.review.attention import shade
from surelabel.review.queue import Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder

WIDTH, HEIGHT = 144, 96


def opacity(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        pixels = np.asarray(image)
    assert not pixels[..., :3].any()
    return pixels[..., 3]


def test_a_shade_is_clear_where_the_nets_looked() -> None:
    weights = np.full((4, 4), 1e-6)
    weights[1, 3] = 1
    found = opacity(shade(weights, 32, (60, 40), padded=False))
    assert found.shape == (40, 60)
    assert found[15, 52] < 15
    assert found[:, :25].min() > 150


def test_cells_beyond_the_image_and_padding_are_left_out() -> None:
    weights = np.full((4, 4), 1e-6)
    weights[0, 0] = 1
    # 20 pixels are two and a half cells: the first one is two fifths of the side.
    cut = opacity(shade(weights, 20, (50, 50), padded=False))
    assert cut[10, 10] < 15
    assert cut[10, 45] > 150
    # A photograph twice as wide as high fills rows 8 to 24 of 32: cell 0 is padding.
    assert opacity(shade(weights, 32, (40, 20), padded=True)).min() > 80  # between the cells
    weights[1, 0] = 1
    assert opacity(shade(weights, 32, (40, 20), padded=True))[5, 2] < 60


@pytest.fixture(name="looking", scope="module")
def fixture_looking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the tail detail on wide photographs of noise."""
    if not photos_installed():
        pytest.skip("surelabel[photos] is not installed")
    place = tmp_path_factory.mktemp("looking")
    photos = place / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    lines = ["path,label"]
    for i in range(32):
        pixels = rng.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{i:02}.png")
        lines.append(f"{i:02}.png,{'ab'[i % 2] if i < 24 else ''}")
    (photos / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    options = {"net": "lite0", "tail": "detail", "steps": 2, "members": 1, "max_rounds": 1}
    config = surelabel.Config.from_mapping(
        {**options, "views": 0, "mc_samples": 2, "threads": 1, "cache": str(place / "cache")}
    )
    run = surelabel.label(photos / "labels.csv", None, place / "run", config=config)
    return Path(run.path)


def test_the_page_gets_a_shade_in_the_proportions_of_the_image(
    looking: Path, tmp_path: Path
) -> None:
    page = Page(copy_run(looking, tmp_path / "run"))
    assert page.get("/api/state")["attention"] is True
    (first, *_) = page.ids()
    response = page.client.get(f"/attention/{first}")
    assert response.headers["content-type"] == "image/png"
    assert opacity(response.content).shape == (HEIGHT, WIDTH)
    assert page.client.get(f"/attention/{'0' * 16}").status_code == 404


def test_where_the_label_is_hidden_so_is_the_attention(looking: Path, tmp_path: Path) -> None:
    folder = copy_run(looking, tmp_path / "run")
    item_id = str(folder.catalog.ids[-1])
    page = Page(folder, Task(Purpose.AUDIT, (item_id,)))
    assert page.get("/api/state")["attention"] is False
    assert page.client.get(f"/attention/{item_id}").status_code == 404


def test_nets_that_look_everywhere_have_none(folder: RunFolder) -> None:
    page = Page(folder)
    assert page.get("/api/state")["attention"] is False
    assert page.client.get(f"/attention/{page.ids()[0]}").status_code == 404


def test_a_key_shows_where_the_nets_looked(looking: Path, tmp_path: Path) -> None:
    folder = copy_run(looking, tmp_path / "run")
    with chromium() as browser, serving(folder) as server, opened(browser, server) as page:
        ready(page)
        expect(page.locator(".shade")).to_have_count(0)
        page.keyboard.press(".")
        expect(page.locator(".shade")).to_be_visible()
        expect(page.locator("#toggle-attention")).to_have_attribute("aria-pressed", "true")
        picture, shade_box = (page.locator(f"#frame {e}").first for e in ("img", ".shade"))
        assert picture.bounding_box() == shade_box.bounding_box()
        before = page.locator(".shade").get_attribute("src")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".shade")).not_to_have_attribute("src", str(before))
        page.locator("#toggle-attention").click()
        expect(page.locator(".shade")).to_have_count(0)
