"""The gallery and the map in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, pi, sin

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import chromium, opened, saved
from playwright.sync_api import Browser, Page, Route, expect
from review_data import serving

from surelabel.review.server import ReviewServer
from surelabel.runs.folder import RunFolder
from surelabel.workflows.embedding import embed
from surelabel.workflows.label import annotations_of

TILES = "#gallery-tiles .tile"


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="server")
def fixture_server(folder: RunFolder) -> Iterator[ReviewServer]:
    embed(folder)  # so that no process draws the map meanwhile
    with serving(folder) as server:
        yield server


@pytest.fixture(name="page")
def fixture_page(browser: Browser, server: ReviewServer) -> Iterator[Page]:
    with opened(browser, server) as page:
        page.click("#open-gallery")
        painted(page)
        yield page


def painted(page: Page) -> None:
    page.wait_for_selector(TILES)
    page.wait_for_function(
        f"() => [...document.querySelectorAll('{TILES} img')].every((i) => i.naturalWidth > 0)"
    )


def choose(page: Page, name: str, value: str) -> None:
    with page.expect_response("**/api/gallery?*"):
        page.select_option(f"#filter-{name}", f"={value}")
    painted(page)


def test_accepted_labels_are_corrected_many_at_a_time(page: Page, folder: RunFolder) -> None:
    table = annotations_of(folder)
    accepted = set(table.loc[table["source"] == "pseudo", "id"])
    choose(page, "source", "pseudo")
    tiles = page.locator(TILES)
    expect(tiles).to_have_count(len(accepted))
    page.keyboard.press("1")  # nothing is selected: nothing happens
    tiles.first.click()
    tiles.last.click(modifiers=["Shift"])
    expect(page.locator("#gallery-selected")).to_contain_text(str(len(accepted)))
    page.keyboard.press("x")
    saved(page)
    answers = folder.answers.standing()
    assert set(answers) == accepted
    assert {(str(a.kind), a.reviewer) for a in answers.values()} == {("none", "ann")}
    expect(tiles.locator(".name")).to_have_text(["none of the classes"] * len(accepted))
    page.keyboard.press("u")
    expect(tiles.first.locator(".from")).to_contain_text("run")
    assert folder.answers.standing() == {}


def test_images_that_were_not_painted_are_never_labeled(page: Page, folder: RunFolder) -> None:
    def refuse(route: Route) -> None:
        route.abort()

    page.route("**/image/**", refuse)
    page.reload()
    expect(page.locator("#gallery-tiles .lost").first).to_be_visible()
    page.click("#gallery-all")
    page.keyboard.press("1")
    expect(page.locator("#notice")).to_contain_text("Select")
    assert folder.answers.standing() == {}


def test_label_these_like_this_one(page: Page, folder: RunFolder) -> None:
    choose(page, "label", "down")
    first = page.locator(TILES).first
    first.click()
    with page.expect_response("**/api/gallery?*"):
        page.click("#gallery-like")
    painted(page)
    expect(page.locator("#chips button")).to_have_count(1)
    page.click("#gallery-all")
    page.click("#gallery-same")
    saved(page)
    assert {a.label for a in folder.answers.standing().values()} == {"down"}
    assert len(folder.answers.standing()) == 39


def test_what_is_drawn_around_on_the_map_is_shown(page: Page, folder: RunFolder) -> None:
    page.click("#show-map")
    page.wait_for_function("() => document.querySelectorAll('#map-legend li').length > 1")
    box = page.locator("#map-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    radius = 0.49 * box["height"]
    around = [(x + radius * cos(a / 8 * pi), y + radius * sin(a / 8 * pi)) for a in range(17)]
    page.mouse.move(*around[0])
    page.mouse.down()
    for corner in around[1:]:
        page.mouse.move(*corner)
    with page.expect_response("**/api/gallery?*within=*"):
        page.mouse.up()
    painted(page)
    stored = embed(folder)
    assert stored.xy is not None
    scale = 0.46 * box["height"]
    inside = (((stored.xy * scale) ** 2).sum(axis=1) < (0.97 * radius) ** 2).sum()
    shown = page.locator(TILES).count()
    assert inside <= shown <= len(stored.ids)
    expect(page.locator("#chips button")).to_have_count(1)
    page.click("#clear-filters")
    expect(page.locator(TILES)).to_have_count(40)


def test_the_enlarged_image_says_why_it_is_here(page: Page) -> None:
    page.locator(TILES).first.dblclick()
    expect(page.locator("#enlarged")).to_be_visible()
    expect(page.locator("#enlarged-text li").first).to_contain_text(".png")
    page.keyboard.press("Escape")
    expect(page.locator("#enlarged")).not_to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (640, 400)], ids=["phone", "zoomed"])
def test_images_are_in_view_where_there_is_little_room(
    browser: Browser, server: ReviewServer, width: int, height: int
) -> None:
    with opened(browser, server, viewport={"width": width, "height": height}) as page:
        page.goto(f"{server.root}#gallery")
        painted(page)
        expect(page.locator("#filter-label")).to_be_hidden()
        tile, bar = page.locator(TILES).first.bounding_box(), page.locator("#gallery-bar")
        below = bar.bounding_box()
        assert tile is not None
        assert below is not None
        assert tile["y"] + 40 < min(below["y"], height)
        page.locator("#filters summary").click()
        choose(page, "source", "pseudo")
        assert page.locator(TILES).count() < 40


@pytest.mark.parametrize(
    ("width", "height", "scheme"),
    [(1280, 800, "light"), (390, 844, "dark"), (640, 400, "light")],
    ids=["wide", "phone, dark", "200 % zoom"],
)
def test_axe_finds_nothing(page: Page, width: int, height: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.locator("#filters").evaluate("filters => (filters.open = true)")
    page.locator(TILES).first.click()
    for view in ("#show-images", "#show-map"):
        page.click(view)
        found = Axe().run(page, "body").response["violations"]
        faults = [f"{each['id']}: {node['html']}" for each in found for node in each["nodes"]]
        assert faults == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
