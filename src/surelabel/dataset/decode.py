"""Decode an image file of any format that Pillow reads to a small square array."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import IO

import numpy as np
from PIL import Image, UnidentifiedImageError

from surelabel.dataset.array_store import Pixels
from surelabel.types import FloatArray

_KEPT_SIDES = range(16, 65)
_MIN_ENLARGED_SIDE = 24
_DEFAULT_SIDE = 64
_ORIENTATION_TAG = 0x0112
_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each EXIF orientation."""
_NOT_DECODED = frozenset({"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"})
"""Formats that Pillow only recognizes, or hands to another program."""
_LARGE = 2**24
"""Pixels; larger images are decoded one at a time, and converted part by part."""
_HUGE = 2**26
"""Pixels in the file; such an image takes its turn even if Pillow shrinks it while it decodes."""
_LARGEST_WEBP = 25_000_000
"""Pixels; the decoder of this format alone takes 15 bytes for each, those of others up to 4."""
_REDUCING_GAP = 2.0
_turn = threading.Lock()
_GRAY: dict[str, int | tuple[int, int, int]] = {"L": 127, "RGB": (127, 127, 127)}
"""The color of padding, by mode."""


@dataclass(frozen=True)
class Decoding:
    """How images are decoded; 0 and empty leave the choice to the images."""

    size: int = 0
    """Width and height in pixels."""
    channels: int = 0
    """1 for gray, 3 for color."""
    resize: str = ""
    """Pillow's name of the resampling filter; "pad", alone or after "-", keeps the aspect ratio."""


AUTO_DECODING = Decoding()
"""Size and channels are chosen from the images."""


class UnreadableImageError(Exception):
    """An image that cannot be used; the text is the reason in plain words."""


def choose_size(shapes: Iterable[tuple[int, int]]) -> int:
    """The side for images of these (width, height).

    One square shape of 16 to 64 pixels is kept; one shape under 16 is enlarged by the smallest
    whole factor that reaches 24; anything else becomes 64.
    """
    distinct = set(shapes)
    if len(distinct) != 1:
        return _DEFAULT_SIDE
    width, height = distinct.pop()
    longer = max(width, height)
    if longer < _KEPT_SIDES.start:
        return longer * -(-_MIN_ENLARGED_SIDE // longer)
    return longer if width == height and longer in _KEPT_SIDES else _DEFAULT_SIDE


@cache
def readable_formats() -> tuple[str, ...]:
    """The formats that Pillow decodes: by itself, and HEIC where ``pillow-heif`` is installed."""
    Image.init()
    if find_spec("pillow_heif") is not None:
        import_module("pillow_heif").register_heif_opener()
    return tuple(sorted(set(Image.OPEN) - _NOT_DECODED))


@cache
def readable_suffixes() -> frozenset[str]:
    """Suffixes of files in ``readable_formats``, in lower case with the dot."""
    formats = readable_formats()
    return frozenset(e for e, name in Image.registered_extensions().items() if name in formats)


@contextlib.contextmanager
def strict_pillow() -> Iterator[None]:
    """Turn Pillow's warning of a decompression bomb into an error, and silence its other warnings.

    Python's warning filters belong to the whole process: enter this once, around the threads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def open_image(content: IO[bytes]) -> Image.Image:
    """The image with only its header read, or ``UnreadableImageError``."""
    with _as_unreadable():
        image = Image.open(content, formats=readable_formats())
        if image.format == "WEBP" and image.width * image.height > _LARGEST_WEBP:
            raise UnreadableImageError(
                f"a WebP image of more than {_LARGEST_WEBP / 1e6:.0f} million pixels takes too "
                "much memory: save it as JPEG or PNG"
            )
        return image


def is_gray(image: Image.Image) -> bool:
    """Whether the image is gray, judging by its header alone."""
    if image.mode in {"1", "L", "LA", "La", "I", "F"} or image.mode.startswith("I;16"):
        return True
    palette = image.palette
    if image.mode not in {"P", "PA"} or palette is None:
        return False
    entries = bytes(palette.palette)
    width = len(palette.rawmode or palette.mode)
    red, green, blue = (entries[channel::width] for channel in range(3))
    return width >= 3 and red == green == blue


def decode_image(content: bytes, size: int, channels: int, resize: str = "") -> Pixels:
    """(S, S, C) pixels of the file ``content``, or ``UnreadableImageError`` with the reason."""
    if not content:
        raise UnreadableImageError("the file is empty")
    with open_image(io.BytesIO(content)) as image, _as_unreadable():
        full = image.width * image.height
        image.draft(image.mode, (2 * size, 2 * size))
        with in_turn(image, full):
            image.load()
            square = _shrink_in_bands(image, size, channels, resize)
        return _to_array(_upright(image, square), channels)


@contextlib.contextmanager
def in_turn(image: Image.Image, n_pixels: int = 0) -> Iterator[None]:
    """Decode a large image while no other one is decoded: some kilobytes may take a gigabyte.

    ``n_pixels`` is the size in the file, before Pillow was asked for a smaller version.
    """
    is_large = image.width * image.height > _LARGE or n_pixels > _HUGE
    with _turn if is_large else contextlib.nullcontext():
        yield


def resize_array(row: Pixels, size: int, channels: int, resize: str = "") -> Pixels:
    """(S, S, C) pixels of an image (H, W) or (H, W, 1, 3 or 4) in memory, by the same rules."""
    flat = row[..., 0] if row.ndim == 3 and row.shape[2] == 1 else row
    image = Image.fromarray(flat)
    return _to_array(_resize(_opaque(image, channels), size, resize), channels)


def _to_array(image: Image.Image, channels: int) -> Pixels:
    """(H, W, C) pixels of an image in mode L or RGB."""
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels.reshape(*pixels.shape[:2], channels)


def _opaque(image: Image.Image, channels: int, brightest: float = 0.0) -> Image.Image:
    """The image in mode L or RGB, with transparency laid on white.

    ``brightest`` is that of the whole image if this is a part of it.
    """
    mode = "L" if channels == 1 else "RGB"
    if _is_deep(image):
        image = _eight_bits(image, brightest or _brightest(image))
    elif "transparency" in image.info or image.mode in {"LA", "La", "PA", "RGBA", "RGBa"}:
        if image.mode in {"La", "RGBa"}:
            image = image.convert(image.mode.upper())
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    if image.mode not in {"L", "RGB"}:
        image = image.convert("L" if image.mode == "1" else "RGB")
    return image if image.mode == mode else image.convert(mode)


def _is_deep(image: Image.Image) -> bool:
    """Whether a gray value takes more than eight bits."""
    return image.mode in {"I", "F"} or image.mode.startswith("I;16")


def _brightest(image: Image.Image) -> float:
    """The value of a deep image that becomes white."""
    full = 1.0 if image.mode == "F" else 65535.0
    if image.mode in {"I", "F"}:
        full = max(full, *(float(_values(band).max(initial=0.0)) for _, band in _bands(image)))
    return full


def _values(image: Image.Image) -> FloatArray:
    return np.nan_to_num(np.asarray(image, dtype=np.float32), posinf=0.0, neginf=0.0)


def _eight_bits(image: Image.Image, brightest: float) -> Image.Image:
    return Image.fromarray(np.rint(_values(image).clip(0.0) * (255.0 / brightest)).astype(np.uint8))


def _bands(image: Image.Image, multiple: int = 1) -> Iterator[tuple[int, Image.Image]]:
    """Parts of the image, one below the other, with the first row: a multiple of ``multiple``."""
    height = multiple * max(1, _LARGE // (4 * image.width * multiple))
    for top in range(0, image.height, height):
        bottom = min(top + height, image.height)
        yield top, image.crop((0, top, image.width, bottom))


def _shrink_in_bands(image: Image.Image, size: int, channels: int, resize: str) -> Image.Image:
    """``_resize`` of the whole image, made opaque band by band if it is large: the same pixels.

    Pillow, too, averages whole blocks of pixels first (its ``reducing_gap``).
    """
    small, method = _inner_size(image.size, size, resize), _method(image.size, size, resize)
    (width, height), (x, y) = image.size, _block(image.size, small)
    if width * height <= _LARGE or method is Image.Resampling.NEAREST or x == y == 1:
        return _resize(_opaque(image, channels), size, resize)
    brightest = _brightest(image) if _is_deep(image) else 0.0
    mode = "L" if channels == 1 else "RGB"
    averaged = Image.new(mode, (-(-width // x), -(-height // y)))
    for top, band in _bands(image, y):
        averaged.paste(_opaque(band, channels, brightest).reduce((x, y)), (0, top // y))
    inner = averaged.resize(small, method, box=(0, 0, width / x, height / y))
    return _padded(inner, size, resize)


def _block(size: tuple[int, int], small: tuple[int, int]) -> tuple[int, int]:
    """Width and height of the blocks that Pillow averages before it resizes to ``small``."""
    x, y = (int(old / new / _REDUCING_GAP) or 1 for old, new in zip(size, small, strict=True))
    return x, y


def _resize(image: Image.Image, size: int, resize: str) -> Image.Image:
    if image.size == (size, size):
        return image
    small, method = _inner_size(image.size, size, resize), _method(image.size, size, resize)
    return _padded(image.resize(small, method, reducing_gap=_REDUCING_GAP), size, resize)


def _method(full: tuple[int, int], size: int, resize: str) -> Image.Resampling:
    named = resize.removesuffix("pad").removesuffix("-")
    if named:
        return Image.Resampling[named.upper()]
    return Image.Resampling.BICUBIC if max(full) < size else Image.Resampling.LANCZOS


def _inner_size(full: tuple[int, int], size: int, resize: str) -> tuple[int, int]:
    """Width and height without padding."""
    if not resize.endswith("pad"):
        return size, size
    width, height = (max(1, round(side * size / max(full))) for side in full)
    return width, height


def _padded(inner: Image.Image, size: int, resize: str) -> Image.Image:
    if not resize.endswith("pad"):
        return inner
    square = Image.new(inner.mode, (size, size), _GRAY[inner.mode])
    square.paste(inner, ((size - inner.width) // 2, (size - inner.height) // 2))
    return square


def _upright(original: Image.Image, square: Image.Image) -> Image.Image:
    """``square`` turned upright by the EXIF data of ``original``; unreadable EXIF is ignored."""
    try:
        turn = _TRANSPOSE.get(original.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:
        return square
    return square if turn is None else square.transpose(turn)


@contextlib.contextmanager
def _as_unreadable() -> Iterator[None]:
    """Pillow's many exceptions as one: its decoders raise nearly anything on damaged files."""
    try:
        yield
    except UnreadableImageError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        limit = (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        reason = f"the image has more than {limit:.0f} million pixels"
    except UnidentifiedImageError:
        reason = "the file is not an image of a known format"
    except MemoryError:
        reason = "the image is too large for the memory of this machine"
    except Exception as error:
        text = str(error) or type(error).__name__
        truncated = "truncated" in text.lower() or isinstance(error, EOFError)
        reason = "the file ends too early" if truncated else f"the file is damaged ({text})"
    else:
        return
    raise UnreadableImageError(reason)
