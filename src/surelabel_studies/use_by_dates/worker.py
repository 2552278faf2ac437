"""Renders every n-th chunk of a set: a process of its own, started by the writer.

It says on standard output how many images it made, and ends when nobody listens any more.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from surelabel.files.atomic import atomic_write_bytes, atomic_write_many
from surelabel_studies.use_by_dates.records import Settings, image_path, table
from surelabel_studies.use_by_dates.scene import render

QUALITY = 92
PARTS = ".parts"


def encode(image: Image.Image) -> bytes:
    """The bytes of the image's file."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def part_path(out: Path, number: int) -> Path:
    """The rows of the label table that belong to a chunk; it is there when the chunk is done."""
    return out / PARTS / f"{number:05d}.csv"


def is_done(out: Path, settings: Settings, number: int) -> bool:
    """Whether all of a chunk is there."""
    has_rows = (out / "labels.csv").exists() or part_path(out, number).exists()
    return has_rows and all((out / image_path(i)).exists() for i in settings.chunk(number))


def make_chunk(out: Path, settings: Settings, number: int, made: Callable[[int], None]) -> None:
    """Render the images of a chunk, each file whole or absent, and then its rows."""
    files, records = {}, []
    for index in settings.chunk(number):
        image, record = render(
            index, settings.like, settings.seed, settings.size, scale=settings.scale
        )
        files[out / image_path(index)] = encode(image)
        records.append(record)
        made(1)
    atomic_write_many(files)
    atomic_write_bytes(part_path(out, number), table(records, header=False))


def main() -> None:
    """Arguments: the folder, the settings, and the numbers of the chunks to make."""
    out, settings, *numbers = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = Settings.from_json(settings)
    try:
        for number in numbers:
            make_chunk(Path(out), chosen, int(number), _say)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        os.write(1, f"{error.filename or out}: {error.strerror}\n".encode())
        sys.exit(1)


def _say(n: int) -> None:
    os.write(1, f"{n}\n".encode())
