"""Characters: outlines from Pillow's built-in font, and the 5x7 dots of coding machines."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Mask = npt.NDArray[np.float32]
Dots = npt.NDArray[np.bool_]

_COLUMNS = {
    " ": "0000000000", "'": "0005030000", "-": "0808080808", ".": "0060600000",
    "/": "2010080402", ":": "0036360000",
    "0": "3E5149453E", "1": "00427F4000", "2": "4261514946", "3": "2141454B31",
    "4": "1814127F10", "5": "2745454539", "6": "3C4A494930", "7": "0171090503",
    "8": "3649494936", "9": "064949291E",
    "A": "7E1111117E", "B": "7F49494936", "C": "3E41414122", "D": "7F4141221C",
    "E": "7F49494941", "F": "7F09090901", "G": "3E4149497A", "H": "7F0808087F",
    "I": "00417F4100", "J": "2040413F01", "K": "7F08142241", "L": "7F40404040",
    "M": "7F020C027F", "N": "7F0408107F", "O": "3E4141413E", "P": "7F09090906",
    "Q": "3E4151215E", "R": "7F09192946", "S": "4649494931", "T": "01017F0101",
    "U": "3F4040403F", "V": "1F2040201F", "W": "3F4038403F", "X": "6314081463",
    "Y": "0708700807", "Z": "6151494543",
}  # fmt: skip
"""Five columns of each character in hexadecimal; the lowest bit is the top dot."""


@lru_cache(maxsize=512)
def dots_5x7(character: str) -> Dots:
    """The dots (7, 5) of a character."""
    columns = bytes.fromhex(_COLUMNS[character])
    rows = [[bool(column >> row & 1) for column in columns] for row in range(7)]
    return np.array(rows, dtype=bool)


@lru_cache(maxsize=512)
def dots_from_outline(character: str, height: int, width: int) -> Dots:
    """The dots (height, width) that an outline covers: the larger matrices of better coders."""
    big = font(96)
    mask = Image.new("L", (96, 96))
    left, _, right, _ = big.getbbox(character)
    ImageDraw.Draw(mask).text((-left, 0), character, 255, big, stroke_width=1)
    _, top, _, bottom = big.getbbox("H")
    shape = mask.crop((0, int(top), max(int(right - left), 40), int(bottom)))
    small = shape.resize((width, height), Image.Resampling.BOX)
    return np.asarray(small) > 105


@lru_cache(maxsize=256)
def font(size: int) -> ImageFont.FreeTypeFont:
    """Pillow's built-in font."""
    face = ImageFont.load_default(size)
    assert isinstance(face, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return face


@lru_cache(maxsize=64)
def size_for_caps(height: int) -> int:
    """The font size whose capitals are about ``height`` pixels high."""
    _, top, _, bottom = font(100).getbbox("H")
    return max(5, round(height * 100 / (bottom - top)))


def text_mask(text: str, caps: int, *, bold: int = 0) -> Mask:
    """Coverage (H, W) of a line of text whose capitals are ``caps`` pixels high."""
    face = font(size_for_caps(caps))
    left, top, right, bottom = face.getbbox(text, stroke_width=bold)
    width, height = max(1, int(right - left)), max(1, int(bottom - top))
    image = Image.new("L", (width, height))
    ImageDraw.Draw(image).text((-left, -top), text, 255, face, stroke_width=bold)
    return np.asarray(image, dtype=np.float32) / np.float32(255)
