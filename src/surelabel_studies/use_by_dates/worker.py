"""A process that renders some chunks of a set; the writer starts it.

It prints on standard output how many images it has rendered, and ends when nobody reads that.
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
    """The image as the bytes of a JPEG file."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()


def part_path(out: Path, number: int) -> Path:
    """The file with a chunk's rows of the label table, which exists once the chunk is done."""
    return out / PARTS / f"{number:05d}.csv"


def is_done(out: Path, settings: Settings, number: int) -> bool:
    """Whether a chunk is complete."""
    has_rows = (out / "labels.csv").exists() or part_path(out, number).exists()
    return has_rows and all((out / image_path(i)).exists() for i in settings.chunk(number))


def make_chunk(out: Path, settings: Settings, number: int, on_made: Callable[[int], None]) -> None:
    """Render the images of a chunk, then write its rows; files are written atomically."""
    files, records = {}, []
    for index in settings.chunk(number):
        image, record = render(
            index, settings.like, settings.seed, settings.size, scale=settings.scale
        )
        files[out / image_path(index)] = encode(image)
        records.append(record)
        on_made(1)
    atomic_write_many(files)
    atomic_write_bytes(part_path(out, number), table(records, header=False))


def main() -> None:
    """Arguments: the folder, the settings, and the numbers of the chunks to render."""
    out, settings, *numbers = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    chosen = Settings.from_json(settings)
    try:
        for number in numbers:
            make_chunk(Path(out), chosen, int(number), _print_count)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        os.write(1, f"{error.filename or out}: {error.strerror}\n".encode())
        sys.exit(1)


def _print_count(n: int) -> None:
    os.write(1, f"{n}\n".encode())
