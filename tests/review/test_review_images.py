from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import unlabeled_catalog
from surelabel.review.images import Pictures, Size


def pictures_of(photos: Path, cache: Path) -> tuple[Pictures, dict[str, str]]:
    catalog = unlabeled_catalog(photos, cache=cache)
    store = PixelStore(cache, catalog.size, catalog.channels)
    ids = dict(zip(catalog.paths.tolist(), catalog.ids.tolist(), strict=True))
    return Pictures(catalog, store), ids


def decoded(pictures: Pictures, item_id: str, side: int = Size.LARGE) -> Image.Image:
    found = pictures.get(item_id, side)
    assert found is not None
    return Image.open(io.BytesIO(found[0]))


@pytest.fixture(name="photos")
def fixture_photos(tmp_path: Path) -> Path:
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(photos / "small.png")
    Image.fromarray(rng.integers(0, 256, (1800, 2400, 3), dtype=np.uint8)).save(photos / "big.jpg")
    return photos


def test_small_images_come_as_they_are_and_large_ones_fit(photos: Path, tmp_path: Path) -> None:
    pictures, ids = pictures_of(photos, tmp_path / "cache")
    with Image.open(photos / "small.png") as original:
        assert (np.asarray(decoded(pictures, ids["small.png"])) == np.asarray(original)).all()
    assert decoded(pictures, ids["big.jpg"]).size == (1600, 1200)
    assert decoded(pictures, ids["big.jpg"], Size.SMALL).size == (256, 192)
    assert pictures.get(ids["big.jpg"], Size.LARGE) is pictures.get(ids["big.jpg"], Size.LARGE)


def test_an_unknown_id_has_no_image(photos: Path, tmp_path: Path) -> None:
    pictures, _ = pictures_of(photos, tmp_path / "cache")
    assert pictures.get("0" * 16, Size.LARGE) is None
    assert pictures.get("../small.png", Size.LARGE) is None


def test_photos_are_upright_and_carry_no_exif(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "a secret place"
    Image.new("RGB", (40, 20), "red").save(photos / "turned.jpg", exif=exif)
    pictures, ids = pictures_of(photos, tmp_path / "cache")
    found = pictures.get(ids["turned.jpg"], Size.LARGE)
    assert found is not None
    assert b"secret" not in found[0]
    assert decoded(pictures, ids["turned.jpg"]).size == (20, 40)


@pytest.mark.parametrize("fate", ["gone", "changed"])
def test_the_stored_pixels_take_the_place_of_a_lost_file(
    photos: Path, tmp_path: Path, fate: str
) -> None:
    pictures, ids = pictures_of(photos, tmp_path / "cache")
    if fate == "gone":
        (photos / "small.png").unlink()
    else:
        Image.new("RGB", (500, 500), "blue").save(photos / "small.png")
    size = decoded(pictures, ids["small.png"]).size
    assert size[0] == size[1] < 500


def test_without_file_and_pixels_there_is_no_image(photos: Path, tmp_path: Path) -> None:
    catalog = unlabeled_catalog(photos, cache=tmp_path / "cache")
    empty = PixelStore(tmp_path / "other", catalog.size, catalog.channels)
    for file in photos.iterdir():
        file.unlink()
    assert Pictures(catalog, empty).get(str(catalog.ids[0]), Size.LARGE) is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_mode_becomes_something_a_browser_shows(tmp_path: Path, mode: str) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    gray = Image.new("L", (20, 20), 120)
    image = Image.new("I;16", (20, 20), 30000) if mode == "I;16" else gray.convert(mode)
    image.save(photos / ("a.tif" if mode == "CMYK" else "a.png"))
    pictures, ids = pictures_of(photos, tmp_path / "cache")
    (item_id,) = ids.values()
    shown = decoded(pictures, item_id)
    assert shown.format == "PNG"
    assert shown.mode in {"L", "RGB"}
