"""Peak memory of a whole run on ordinary photographs, and with hostile images among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from faults.scene import Outcome, label_command, make_scene, scratch

_ALLOWED = 1.5
_SIDE = 9450
"""Of a square image just below Pillow's limit of 89 million pixels."""


def hostile_images(seed: int) -> Outcome:
    """The same run twice: on 60 photographs, and with large and odd images beside them."""
    with scratch() as place:
        out = make_scene(place, 20, net="compact", image_size=64)
        rng = np.random.default_rng(seed)
        for number in range(60):
            small = Image.fromarray(rng.integers(0, 256, (100, 150, 3), dtype=np.uint8))
            small.resize((1800, 1200)).save(place / "photos" / f"photo-{number}.jpg")
        normal = _peak(label_command(place, out))
        n = _write_hostile(place / "photos")
        hostile = _peak(label_command(place, place / "hostile"))
        skipped = (place / "hostile" / "skipped.csv").read_text(encoding="utf-8")
        reported = len(skipped.splitlines()) - 1
    failures = [] if hostile < _ALLOWED * normal else [f"{hostile / normal:.2f} times the memory"]
    figures = (
        f"peak {normal / 2**20:,.0f} MB, with hostile images {hostile / 2**20:,.0f} MB "
        f"({hostile / normal:.2f} times); {reported} reported"
    )
    return Outcome("peak memory with hostile images", n, tuple(failures), figures)


_MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(done.stdout[-500:] if done.returncode else peak)
sys.exit(done.returncode)
"""
"""Starts a command from a small process: the peak of a child counts what its parent had in use."""


def _peak(command: list[str]) -> int:
    """The largest resident memory of a command, in bytes; it has to end well."""
    words = [sys.executable, "-c", _MEASURE, *command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout)
    return int(done.stdout) * 1024


def _write_hostile(folder: Path) -> int:
    """Large images of every mode, each a few hundred kilobytes, and absurd metadata."""
    square = (_SIDE, _SIDE)
    large: dict[str, Image.Image] = {
        "rgb.png": Image.new("RGB", square, (9, 8, 7)),
        "gray-16.png": Image.new("I;16", square, 900),
        "transparent.png": Image.new("RGBA", square, (9, 8, 7, 5)),
        "gray-transparent.png": Image.new("LA", square, (9, 5)),
        "large.jpg": Image.new("RGB", square, (1, 2, 3)),
        "large.webp": Image.new("RGB", (9000, 9000), (9, 8, 7)),
        "cmyk.jpg": Image.new("CMYK", square, (9, 8, 7, 5)),
        "50-megapixels.png": Image.new("RGB", (8700, 5800), (5, 5, 5)),
        "thin.png": Image.new("L", (1, 50_000)),
    }
    for name, image in large.items():
        image.save(folder / name)
    large["large.jpg"].save(folder / "progressive.jpg", progressive=True)
    Image.new("F", square, 9.0).save(folder / "float.tif", compression="tiff_deflate")
    small = Image.new("RGB", (300, 200), (7, 7, 7))
    small.save(folder / "exif.jpg", exif=b"Exif\0\0MM\0*" + os.urandom(60_000))
    small.save(folder / "icc.png", icc_profile=os.urandom(8 * 2**20))
    frames = [Image.new("P", (800, 600), k % 256) for k in range(300)]
    frames[0].save(folder / "animated.gif", save_all=True, append_images=frames[1:])
    with (folder / "holes.png").open("wb") as file:
        file.truncate(2**34)
    return len(large) + 6
