from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from surelabel.dataset import decode
from surelabel.dataset.array_store import Pixels
from surelabel.dataset.decode import (
    UnreadableImageError,
    choose_size,
    decode_image,
    is_gray,
    open_image,
    readable_suffixes,
    resize_array,
    strict_pillow,
)


@pytest.mark.parametrize(
    ("shapes", "side"),
    [
        ([(28, 28), (28, 28)], 28),
        ([(16, 16)], 16),
        ([(64, 64)], 64),
        ([(65, 65)], 64),
        ([(640, 480)], 64),
        ([(28, 20)], 64),
        ([(28, 28), (32, 32)], 64),
        ([(8, 8)], 24),
        ([(8, 5)], 24),
        ([(15, 15)], 30),
        ([(12, 12)], 24),
        ([(1, 1)], 24),
        ([], 64),
    ],
)
def test_the_side_follows_the_shapes(shapes: list[tuple[int, int]], side: int) -> None:
    assert choose_size(shapes) == side


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with strict_pillow():
        yield


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format=kind, **options)
    return file.getvalue()


def quarters(size: int = 32) -> Image.Image:
    """Red and green above, blue and white below."""
    image = Image.new("RGB", (size, size), "white")
    half = size // 2
    image.paste("red", (0, 0, half, half))
    image.paste((0, 255, 0), (half, 0, size, half))
    image.paste("blue", (0, half, half, size))
    return image


def corners(pixels: Pixels) -> list[list[int]]:
    """Colors well inside the four quarters, rounded to 0 or 255."""
    n = len(pixels)
    a, b = n // 4, n - n // 4
    few = [pixels[a, a], pixels[a, b], pixels[b, a], pixels[b, b]]
    return [[255 if value > 127 else 0 for value in color] for color in few]


RED, GREEN, BLUE, WHITE = [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM", "TGA"])
def test_common_formats_keep_their_colors(kind: str) -> None:
    pixels = decode_image(saved(quarters(), kind), 16, 3)
    assert pixels.shape == (16, 16, 3)
    assert pixels.dtype == np.uint8
    assert corners(pixels) == [RED, GREEN, BLUE, WHITE]


def test_an_image_of_the_right_size_is_unchanged() -> None:
    exact = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    content = saved(Image.fromarray(exact), "PNG")
    assert (decode_image(content, 16, 3) == exact).all()
    assert (resize_array(exact, 16, 3) == exact).all()


def test_the_whole_picture_is_squeezed_into_the_square() -> None:
    wide = quarters(64).resize((128, 32))
    assert corners(decode_image(saved(wide, "PNG"), 16, 3)) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(kind: str, orientation: int) -> None:
    undo: dict[int, list[Image.Transpose]] = {
        1: [],
        2: [Image.Transpose.FLIP_LEFT_RIGHT],
        3: [Image.Transpose.ROTATE_180],
        4: [Image.Transpose.FLIP_TOP_BOTTOM],
        5: [Image.Transpose.TRANSPOSE],
        6: [Image.Transpose.ROTATE_90],
        7: [Image.Transpose.TRANSVERSE],
        8: [Image.Transpose.ROTATE_270],
    }
    stored = quarters(64)
    for turn in undo[orientation]:
        stored = stored.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(stored, kind, exif=exif)
    assert corners(decode_image(content, 16, 3)) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize("exif", [b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff"])
def test_broken_exif_does_not_spoil_the_image(exif: bytes) -> None:
    assert corners(decode_image(saved(quarters(), "JPEG", exif=exif), 16, 3))[0] == RED


def test_transparency_lies_on_white() -> None:
    image = quarters().convert("RGBA")
    image.putalpha(0)
    for kind in ("PNG", "WEBP", "TIFF"):
        assert (decode_image(saved(image, kind), 16, 3) == 255).all()
    gray = Image.new("LA", (20, 20), (0, 0))
    assert (decode_image(saved(gray, "PNG"), 16, 1) == 255).all()


def test_a_palette_with_transparency_lies_on_white() -> None:
    image = quarters().convert("P", palette=Image.Palette.ADAPTIVE)
    blue = image.getpixel((2, 30))
    content = saved(image, "PNG", transparency=blue)
    assert corners(decode_image(content, 16, 3)) == [RED, GREEN, WHITE, WHITE]


def test_a_transparent_color_of_an_opaque_mode_lies_on_white() -> None:
    content = saved(quarters(), "PNG", transparency=(0, 0, 255))
    assert corners(decode_image(content, 16, 3)) == [RED, GREEN, WHITE, WHITE]


def test_cmyk_becomes_rgb() -> None:
    content = saved(quarters().convert("CMYK"), "JPEG", quality=95)
    assert corners(decode_image(content, 16, 3)) == [RED, GREEN, BLUE, WHITE]


def test_one_bit_is_black_and_white() -> None:
    image = Image.new("1", (16, 16))
    image.paste(1, (0, 0, 8, 16))
    pixels = decode_image(saved(image, "PNG"), 16, 1)
    assert pixels[0, :, 0].tolist() == [255] * 8 + [0] * 8


def test_sixteen_bits_are_divided_by_their_full_range() -> None:
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], dtype=np.uint16).repeat(8, 0)
    content = saved(Image.fromarray(values.repeat(8, 1)), "PNG")
    pixels = decode_image(content, 16, 1)
    assert sorted(set(pixels.ravel().tolist())) == [0, 100, 200, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0.0, 0.5, 1.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[0.0, 5.0, 10.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[-3.0, np.nan, 1.0]], dtype=np.float32), [0, 0, 255]),
        (np.array([[0, 257 * 7, 65535]], dtype=np.int32), [0, 7, 255]),
        (np.array([[0, 10**6, 5 * 10**6]], dtype=np.int32), [0, 51, 255]),
    ],
)
def test_wide_gray_is_scaled(values: Any, expected: list[int]) -> None:
    square = values.repeat(15, 0).repeat(5, 1)
    pixels = decode_image(saved(Image.fromarray(square), "TIFF"), 15, 1)
    assert pixels[7, [2, 7, 12], 0].tolist() == expected


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_its_first_frame(kind: str) -> None:
    second = Image.new("RGB", (32, 32), "black")
    content = saved(quarters(), kind, save_all=True, append_images=[second])
    assert corners(decode_image(content, 16, 3)) == [RED, GREEN, BLUE, WHITE]


def test_small_images_are_enlarged() -> None:
    assert corners(decode_image(saved(quarters(8), "PNG"), 24, 3)) == [RED, GREEN, BLUE, WHITE]


def test_a_large_jpeg_looks_like_its_original() -> None:
    rough = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    big = Image.fromarray(rough).resize((2000, 1500), Image.Resampling.BICUBIC)
    quick = decode_image(saved(big, "JPEG", quality=95), 32, 3).astype(float)
    exact = np.asarray(big.resize((32, 32), Image.Resampling.LANCZOS)).astype(float)
    assert np.abs(quick - exact).mean() < 2


def _bomb() -> bytes:
    """A small PNG whose header announces 20,000 x 20,000 pixels."""
    import struct
    import zlib

    content = bytearray(saved(Image.new("L", (4, 4)), "PNG"))
    content[16:24] = struct.pack(">II", 20_000, 20_000)
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    return bytes(content)


def _larger_than_the_limit() -> bytes:
    """Announces between one and two times the limit, where Pillow only warns."""
    return saved(Image.new("1", (10_000, 10_000)), "PNG")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"hello, this is text\n", "not an image of a known format"),
        (saved(quarters(64), "JPEG")[:400], "ends too early"),
        (saved(quarters(64), "JPEG")[:-200], "ends too early"),
        (saved(quarters(640), "PNG")[:500], "ends too early|damaged"),
        (saved(quarters(), "PNG")[:20], "not an image|ends too early|damaged"),
        (_bomb(), "more than 89 million pixels"),
        (_larger_than_the_limit(), "more than 89 million pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image of a known format"),
    ],
)
def test_what_cannot_be_decoded_has_a_reason_in_plain_words(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableImageError, match=reason):
        decode_image(content, 16, 3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_damage_anywhere_is_never_another_error(kind: str) -> None:
    whole = saved(quarters(), kind)
    rng = np.random.default_rng(0)
    for _ in range(60):
        broken = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        for place in rng.integers(0, len(broken), 4):
            broken[place] = rng.integers(0, 256)
        with contextlib.suppress(UnreadableImageError):
            assert decode_image(bytes(broken), 16, 3).shape == (16, 16, 3)


@pytest.mark.parametrize(
    ("image", "gray"),
    [
        (Image.new("L", (4, 4)), True),
        (Image.new("1", (4, 4)), True),
        (Image.new("LA", (4, 4)), True),
        (Image.new("I;16", (4, 4)), True),
        (Image.new("RGB", (4, 4)), False),
        (Image.new("RGBA", (4, 4)), False),
        (quarters().convert("P"), False),
        (quarters().convert("L").convert("P"), True),
    ],
)
def test_gray_is_recognized_by_the_header(image: Image.Image, gray: bool) -> None:
    with open_image(io.BytesIO(saved(image, "PNG"))) as opened:
        assert is_gray(opened) is gray


@pytest.mark.parametrize("shape", [(9, 7), (9, 7, 1), (9, 7, 3), (9, 7, 4)])
@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_follow_the_same_rules(shape: tuple[int, ...], channels: int) -> None:
    row = np.full(shape, 255, dtype=np.uint8)
    assert (resize_array(row, 16, channels) == 255).all()
    assert resize_array(row, 16, channels).shape == (16, 16, channels)


def test_only_formats_that_are_decoded_count_as_images() -> None:
    suffixes = readable_suffixes()
    assert {".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp"} <= suffixes
    assert not {".pdf", ".eps", ".mpg", ".h5", ".txt", ".csv"} & suffixes


def test_padding_keeps_the_aspect_ratio_and_fills_with_gray() -> None:
    strip = Image.new("RGB", (40, 10), "red")
    padded = decode_image(saved(strip, "PNG"), 16, 3, "bicubic-pad")
    assert (padded[6:10] == RED).all()
    assert (padded[:6] == 127).all()
    assert (padded[10:] == 127).all()
    gray = resize_array(np.zeros((30, 10), dtype=np.uint8), 12, 1, "pad")
    assert (gray[:, 4:8] == 0).all()
    assert (gray[:, :4] == 127).all()
    assert (decode_image(saved(strip, "PNG"), 16, 3) == RED).all()


def test_photographs_from_phones_are_read_upright() -> None:
    pytest.importorskip("pillow_heif", reason="the extra heic is not installed")
    assert {".heic", ".heif"} <= readable_suffixes()
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = quarters(64).transpose(Image.Transpose.ROTATE_90)
    for image, more in ((quarters(64), {}), (turned, {"exif": exif.tobytes()})):
        pixels = decode_image(saved(image, "HEIF", quality=95, **more), 32, 3).astype(int)
        assert pixels[8, 8, 0] - pixels[8, 8, 1] > 100, "red above on the left"
        assert pixels[8, 24, 1] - pixels[8, 24, 0] > 100, "green above on the right"
        assert pixels[24, 8, 2] - pixels[24, 8, 0] > 100, "blue below on the left"


def test_a_webp_image_that_takes_too_much_memory_is_refused() -> None:
    content = saved(Image.new("RGB", (5001, 5000)), "WEBP")
    with pytest.raises(UnreadableImageError, match="25 million"):
        decode_image(content, 16, 3)


def noise(mode: str, width: int, height: int) -> bytes:
    rng = np.random.default_rng(0)
    if mode in {"F", "I", "I;16"}:
        kind, top = {"F": (np.float32, 3), "I": (np.int32, 2e5), "I;16": (np.uint16, 65535)}[mode]
        return saved(Image.fromarray((rng.random((height, width)) * top).astype(kind)), "TIFF")
    pixels = rng.integers(0, 256, (height, width, 4), dtype=np.uint8)
    return saved(Image.fromarray(pixels).convert(mode), "TIFF" if mode == "CMYK" else "PNG")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "L", "P", "I;16", "I", "F", "1", "CMYK"])
@pytest.mark.parametrize("resize", ["", "pad", "bilinear", "nearest", "box-pad"])
def test_a_large_image_is_converted_part_by_part_to_the_same_pixels(
    monkeypatch: pytest.MonkeyPatch, mode: str, resize: str
) -> None:
    for (width, height), channels in (((301, 517), 3), ((1000, 97), 1), ((128, 128), 3)):
        content = noise(mode, width, height)
        whole = decode_image(content, 16, channels, resize)
        monkeypatch.setattr(decode, "_LARGE", 5000)
        assert np.array_equal(decode_image(content, 16, channels, resize), whole)
        monkeypatch.undo()
