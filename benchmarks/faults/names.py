"""Names as nobody sane would choose them, for files and classes, through readers and writers."""

from __future__ import annotations

import csv
import hashlib
import os
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import surelabel
from faults.inject import run_child
from faults.scene import Outcome, scratch, settings
from surelabel.export.names import class_of_folder
from surelabel.export.writers import ExportFormat
from surelabel.files.spreadsheet import unguard

COMPOSED = unicodedata.normalize("NFC", "café")
FILES = (
    "plain.png",
    "line\nbreak.png",
    "return\rx.png",
    "tab\tx.png",
    "\u202egnp.exe.png",
    "emoji😀👨‍👩‍👧.png",
    "Case.png",
    "case.png",
    f"{COMPOSED}.png",
    f"{unicodedata.normalize('NFD', COMPOSED)}.png",
    "x" * 251 + ".png",
    "ü" * 125 + ".png",
    " leading.png",
    "trailing .png",
    "=HYPERLINK(x).png",
    "+1.png",
    "-rf.png",
    "@x.png",
    "'quoted'.png",
    'double"quoted.png',
    "comma,semicolon;.png",
    "%2e%2e%2f.png",
    "back\\slash.png",
    "con.png",
    "nul",
    "<img src=x onerror=alert(1)>.png",
    "folder/same.png",
    "other/same.png",
    "two..dots.png",
    "{braces}$(x)`y`.png",
)
BAD_FILES = (b"invalid\xff\xfe.png", b"half\xc3.png")
CLASSES = ("=1+1", "a/b", "😀 \"quoted\", 'it'")
OUTSIDE = ("../outside/secret.txt", "{place}/outside/secret.txt", "x/../../outside/secret.txt")
"""Files that tables name and that are no images: images elsewhere may be named."""
SECRET = b"kept-to-myself"


def hostile_names(seed: int) -> Outcome:
    """Label, export in every format and read back: exact, and nothing changes outside."""
    failures: list[str] = []
    with scratch() as place:
        labels = _write(place, seed)
        outside = _tree(place / "outside")
        config = settings(place / "cache", max_rounds=1, net="compact")
        (place / "settings.toml").write_text(config.to_toml(), encoding="utf-8")
        words = ["label", place / "photos", "--labels", labels, "--out", place / "run"]
        ended = run_child([*map(str, words), "--config", str(place / "settings.toml"), "--quiet"])
        if ended.code:
            return Outcome("hostile names", 1, (f"label: {ended.code}: {ended.output[-500:]}",))
        table = surelabel.open_run(place / "run").annotations
        failures += _not_accounted_for(place, table)
        formats = list(ExportFormat)
        for to in formats:
            out = place / "exports" / to
            ended = run_child(["export", str(place / "run"), "--to", to, "--out", str(out)])
            if ended.code or "Traceback" in ended.output:
                failures.append(f"export {to}: {ended.code}: {ended.output[-300:]}")
            else:
                failures += [f"{to}: {each}" for each in _read_back(place, to, out, table)]
        failures += [f"{path} holds what a text file holds" for path in _found_in(place, SECRET)]
        if _tree(place / "outside") != outside:
            failures.append("something outside has changed")
        unknown = {p.name for p in place.iterdir()} - _KNOWN
        failures += [f"{name}: appeared outside" for name in unknown]
    n = len(FILES) + len(BAD_FILES) + len(CLASSES) + len(OUTSIDE)
    figures = f"{len(formats)} formats written, {len(_readers(formats))} of them read back"
    return Outcome("hostile names", n, tuple(failures), figures)


_KNOWN = {"photos", "labels.csv", "outside", "cache", "settings.toml", "run", "exports"}


def _readers(formats: list[ExportFormat]) -> list[ExportFormat]:
    return [to for to in formats if to in _TABLES or to in _FOLDERS]


def _write(place: Path, seed: int) -> Path:
    """Photos with these names, and a table that labels most of them; returns the table."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, name in enumerate([*map(os.fsencode, FILES), *BAD_FILES]):
        path = Path(os.fsdecode(os.fsencode(place / "photos") + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        label = CLASSES[number % len(CLASSES)]
        pixels = rng.integers(0, 90, (16, 16), dtype=np.uint8) + np.uint8(60 * (number % 3))
        with path.open("wb") as file:
            Image.fromarray(pixels).save(file, "PNG")
        if name not in BAD_FILES and path.suffix:
            rows.append((os.fsdecode(name), label))
    outside = place / "outside"
    outside.mkdir()
    Image.new("L", (16, 16), 9).save(outside / "image.png")
    (outside / "secret.txt").write_bytes(SECRET)
    (place / "photos" / "link.png").symlink_to(outside / "image.png")
    (place / "photos" / "text.png").symlink_to(outside / "secret.txt")
    table = place / "labels.csv"
    # Of two names in two Unicode forms one is left out, and so is its label here.
    rows = [row for row in rows if unicodedata.is_normalized("NFC", row[0])]
    with table.open("w", newline="", encoding="utf-8") as file:
        named = [(name.format(place=place), CLASSES[0]) for name in OUTSIDE]
        csv.writer(file).writerows([("path", "label"), *rows[:-4], *named])
    return table


def _tree(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def _not_accounted_for(place: Path, table: pd.DataFrame) -> list[str]:
    """Files that are neither in the result nor reported."""
    skipped = (place / "run" / "skipped.csv").read_text(encoding="utf-8", errors="replace")
    n_skipped = len(list(csv.reader(skipped.splitlines()))) - 1
    n_files = len(FILES) + len(BAD_FILES) + 2  # and the links
    if len(table) + n_skipped < n_files:
        return [f"{n_files} files, {len(table)} in the result, {n_skipped} reported"]
    return []


_TABLES = (ExportFormat.CSV, ExportFormat.LABELS, ExportFormat.PARQUET)
_FOLDERS = (ExportFormat.FOLDER, ExportFormat.HF_FOLDER, ExportFormat.FIFTYONE_TREE)


def _read_back(place: Path, to: ExportFormat, out: Path, table: pd.DataFrame) -> list[str]:
    """What is not as it was when surelabel reads its own export."""
    labeled = table[table["label"] != ""]
    if to in _TABLES:
        suffix = ".parquet" if to is ExportFormat.PARQUET else ".csv"
        named = out if out.suffix == suffix else out.rename(out.with_name(out.name + suffix))
        found = pd.read_parquet(named) if to is ExportFormat.PARQUET else _own_csv(named)
        expected = dict(zip(table["path"], table["label"], strict=True))
        got = dict(zip(found["path"], found["label"], strict=True))
        return [] if got == expected else [f"{k!r}" for k in expected if got.get(k) != expected[k]]
    if to in _FOLDERS:
        files = [p for p in out.rglob("*") if p.suffix == ".png" or p.suffix == ""]
        contents = sorted(_digest(p) for p in files if p.is_file())
        source = sorted(_digest(place / "photos" / path) for path in table["path"])
        if to is ExportFormat.FOLDER:
            tops = {class_of_folder(p.parent.name) for p in files if p.is_file()}
            missing = set(labeled["label"]) - tops
            if missing:
                return [f"the class {name!r} has no folder" for name in missing]
        return [] if set(contents) >= set(source) else ["images are missing or changed"]
    return []


def _own_csv(path: Path) -> pd.DataFrame:
    """The table as surelabel's reader takes it: guards against formulas are removed."""
    found = pd.read_csv(path, dtype=str, keep_default_na=False)
    return found.map(unguard)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _found_in(place: Path, mark: bytes) -> list[str]:
    """Files of the run, the cache and the exports that hold ``mark``."""
    folders = [place / name for name in ("run", "cache", "exports")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path.relative_to(place)) for path in files if mark in path.read_bytes()]
