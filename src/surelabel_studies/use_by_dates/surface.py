"""Faults of the package itself, on the flat picture: fading, folds, occlusion, moisture."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from surelabel_studies.use_by_dates.glyphs import font
from surelabel_studies.use_by_dates.printing import Box
from surelabel_studies.use_by_dates.textures import Array, Pixels, field, resized


def ink_left(
    rng: np.random.Generator, difficulty: float, faintest: float, shape: tuple[int, int]
) -> Array:
    """Share of the ink (H, W) that is still there: thin all over and less so in patches.

    At difficulty .5 it is about ``faintest`` where it is thinnest, what people can just read.
    """
    mean = faintest ** (2 * difficulty)
    patches = resized(field(rng, "patches", 40), *shape)
    uneven = np.exp(np.clip(patches, -0.3, 1.5) * min(1.0, 2.5 * difficulty) * 0.8)
    return np.asarray(np.clip(mean * uneven, 0, 1), dtype=np.float32)


def _window(pixels: Pixels, box: Box, reach: float) -> tuple[int, int, int, int]:
    height, width = pixels.shape[:2]
    x0, y0 = max(0, int(box[0] - reach)), max(0, int(box[1] - reach))
    return x0, y0, min(width, int(box[2] + reach)), min(height, int(box[3] + reach))


def fold(
    rng: np.random.Generator, pixels: Pixels, box: Box, caps: float, difficulty: float
) -> None:
    """A crease along the date draws the print towards itself; one side shines, one is dark."""
    x0, y0, x1, y1 = _window(pixels, box, caps * max(3.4, 1.5 + 5 * difficulty))
    y, x = np.mgrid[y0:y1, x0:x1].astype(np.float32)
    angle = float(rng.normal(0, 0.16))
    cx, cy = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2 + float(rng.normal(0, 0.08)) * caps
    nx, ny = -np.sin(angle), np.cos(angle)
    across = (x - cx) * nx + (y - cy) * ny
    along = np.abs((x - cx) * ny - (y - cy) * nx) / ((box[2] - box[0]) / 2 + 3 * caps)
    ends = np.clip(1.25 - along**3, 0, 1)
    width = caps * (0.22 + 0.2 * difficulty)
    pull = caps * 1.9 * difficulty**1.3 * ends
    shift = pull * np.tanh(across / width) * np.exp(-((across / (pull * 1.3 + 2 * width)) ** 2))
    taken = _sample(pixels, y + shift * ny, x + shift * nx)
    steep = np.tanh(across / width) * np.exp(-((across / (width * 2.2)) ** 2)) * ends
    side = 1.0 if rng.random() < 0.5 else -1.0
    line = np.exp(-((across / (0.05 * caps + 0.6)) ** 2)) * ends
    depth = min(1.0, 0.3 + 1.4 * difficulty)
    light = 1 + depth * (0.5 * side * steep - 0.3 * line)
    pixels[y0:y1, x0:x1] = np.clip(taken * light[..., None], 0, 255).astype(np.uint8)


def _sample(pixels: Pixels, y: Array, x: Array) -> Array:
    """Bilinear samples (H, W, 3)."""
    height, width = pixels.shape[:2]
    y = np.clip(y, 0, height - 1.001)
    x = np.clip(x, 0, width - 1.001)
    row, column = y.astype(np.int32), x.astype(np.int32)
    fy, fx = (y - row)[..., None], (x - column)[..., None]
    flat = pixels.reshape(-1, 3)
    at = row * width + column
    top = flat[at] * (1 - fx) + flat[at + 1] * fx
    bottom = flat[at + width] * (1 - fx) + flat[at + width + 1] * fx
    return np.asarray(top * (1 - fy) + bottom * fy, dtype=np.float32)


def occlude(
    rng: np.random.Generator, pixels: Pixels, box: Box, caps: float, difficulty: float
) -> Pixels:
    """A sticker, a seam of film or a finger covers ``difficulty`` of the date's height."""
    x0, y0, x1, y1 = box
    from_below = rng.random() < 0.5
    covered = (y1 - y0) * (1.12 * difficulty - 0.04)
    edge = y1 - covered if from_below else y0 + covered
    reach = caps * float(rng.uniform(2.0, 4.5))
    top, bottom = (edge, edge + reach + covered) if from_below else (edge - reach - covered, edge)
    image = Image.fromarray(pixels)
    kind = int(rng.integers(3))
    wide = (x0 - caps * float(rng.uniform(0.8, 3)), x1 + caps * float(rng.uniform(0.8, 3)))
    if kind == 0:
        _sticker_over(rng, image, (wide[0], top, wide[1], bottom), caps)
    elif kind == 1:
        _seam_over(rng, image, top, bottom)
    else:
        _finger_over(rng, image, (wide[0], top, wide[1], bottom))
    return np.array(image)


def _sticker_over(rng: np.random.Generator, image: Image.Image, area: Box, caps: float) -> None:
    colors = ((252, 214, 40), (226, 44, 44), (244, 244, 240), (60, 160, 80), (250, 130, 30))
    color = colors[int(rng.integers(len(colors)))]
    pen = ImageDraw.Draw(image)
    x0, y0, x1, y1 = area
    for i in range(3):
        pen.rounded_rectangle(
            (x0 - i, y0 - i, x1 + i + 1, y1 + i + 1), caps * 0.3, outline=(70, 66, 62)
        )
    pen.rounded_rectangle(area, caps * 0.3, fill=color)
    texts = ("-30%", "2 = 1", "PROMO", "-50%", "1.99", "BIO", "NEW")
    face = font(max(8, round((y1 - y0) * 0.5)))
    ink = (30, 26, 26) if sum(color) > 420 else (250, 248, 240)
    pen.text(((x0 + x1) / 2, (y0 + y1) / 2), texts[int(rng.integers(7))], ink, face, anchor="mm")


def _seam_over(rng: np.random.Generator, image: Image.Image, top: float, bottom: float) -> None:
    """A crimped strip of film from side to side."""
    y0, y1 = max(0, int(top)), min(image.height, int(bottom))
    if y1 <= y0:
        return
    tone = rng.uniform(150, 225, 3) * 0.3 + rng.uniform(120, 220) * 0.7
    x = np.arange(image.width, dtype=np.float32)
    pitch = float(rng.uniform(3.0, 5.5)) * image.width / 540
    ribs = 1 + 0.16 * np.sin(x / pitch * 2 * np.pi)
    shade = np.linspace(1.08, 0.8, y1 - y0, dtype=np.float32)[:, None]
    strip = (ribs[None] * shade)[..., None] * tone
    image.paste(Image.fromarray(np.clip(strip, 0, 255).astype(np.uint8)), (0, y0))


def _finger_over(rng: np.random.Generator, image: Image.Image, area: Box) -> None:
    """A finger or a glove along the print: round across, a nail at its tip, a shadow below."""
    skins = ((224, 172, 146), (198, 140, 108), (132, 88, 62), (96, 64, 48), (70, 130, 190))
    skin = np.array(skins[int(rng.integers(len(skins)))], np.float32)
    to_right = rng.random() < 0.5
    x0, y0, x1, y1 = area
    thick, height = y1 - y0, int(y1 - y0) + 1
    width = int((x1 if to_right else image.width - x0) + thick * 0.5)
    t = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    along = np.arange(width, dtype=np.float32)[None] / thick
    end = width / thick - 0.7 + 0.7 * np.sqrt(np.clip(1 - t * t, 0, 1))
    cover = np.clip((end - along) * thick, 0, 1)
    knuckle = 0.06 * np.exp(-(((along - width / thick + 2.2) / 0.08) ** 2))
    light = 1.1 - 0.55 * (t + 0.15) ** 2 - knuckle + 0.025 * np.sin(along * 40) * (1 - t * t)
    pixels = light[..., None] * skin
    nail = (
        np.clip(2.2 - ((along - width / thick + 0.5) / 0.3) ** 4 - (t / 0.42) ** 4, 0, 1)[..., None]
        * 0.5
    )
    pixels = pixels * (1 - nail) + (skin * 0.6 + 95) * light[..., None] * nail
    if not to_right:
        pixels, cover = pixels[:, ::-1], cover[:, ::-1]
    made = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    mask = Image.fromarray((cover * 255).astype(np.uint8))
    left = 0 if to_right else image.width - width
    soft = mask.filter(ImageFilter.BoxBlur(thick / 12)).point([v * 9 // 20 for v in range(256)])
    image.paste((20, 16, 14), (left, int(y0), left + width, int(y0) + height), soft)
    image.paste(made, (left, int(y0)), mask)


def wet(rng: np.random.Generator, pixels: Pixels, box: Box, caps: float, difficulty: float) -> None:
    """Condensation that hazes the date, and drops that bend what lies under them."""
    x0, y0, x1, y1 = _window(pixels, box, caps * 2.5)
    part = Image.fromarray(pixels[y0:y1, x0:x1])
    soft = part.filter(ImageFilter.GaussianBlur(caps * (0.04 + 0.46 * difficulty)))
    shape = (y1 - y0, x1 - x0)
    cloud = resized(field(rng, "patches", 30), *shape)
    y, x = np.mgrid[-1 : 1 : shape[0] * 1j, -1 : 1 : shape[1] * 1j]
    fall = np.clip(1.5 - 1.5 * np.maximum(np.abs(x), np.abs(y)) ** 3, 0, 1)
    haze = (np.clip(1.75 * difficulty + 0.12 * cloud * difficulty, 0, 1) * fall)[..., None]
    veil = 0.45 * difficulty
    hazed = np.asarray(soft, np.float32) * (1 - veil) + 205 * veil
    made = np.asarray(part, np.float32) * (1 - haze) + hazed * haze
    pixels[y0:y1, x0:x1] = made.astype(np.uint8)
    for _ in range(int(6 + 50 * difficulty)):
        radius = caps * float(rng.uniform(0.1, 0.22 + 0.3 * difficulty))
        _drop(pixels, float(rng.uniform(x0, x1)), float(rng.uniform(y0, y1)), radius)


def _drop(pixels: Pixels, x: float, y: float, radius: float) -> None:
    """A drop shows its surroundings small and upside down, with a bright and a dark edge."""
    reach = int(radius) + 1
    height, width = pixels.shape[:2]
    cx, cy = int(x), int(y)
    if not (2 * reach <= cx < width - 2 * reach and 2 * reach <= cy < height - 2 * reach):
        return
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1].astype(np.float32)
    r = np.hypot(dx, dy) / radius
    cover = np.clip((1 - r) * radius, 0, 1)[..., None]
    rows, columns = (cy - dy * 1.1).astype(int), (cx - dx * 1.1).astype(int)
    bent = pixels[rows, columns].astype(np.float32)
    light = 1 + 0.3 * (dx + dy) / radius * r
    shine = 190 * np.exp(
        -(((dx + 0.4 * radius) ** 2 + (dy + 0.45 * radius) ** 2) / (0.05 * radius**2 + 0.3))
    )
    made = bent * light[..., None] - 25 * (r > 0.8)[..., None] + shine[..., None]
    under = pixels[cy - reach : cy + reach + 1, cx - reach : cx + reach + 1]
    under[:] = np.clip(under * (1 - cover) + made * cover, 0, 255).astype(np.uint8)
