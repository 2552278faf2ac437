"""Tiny trained runs with hostile names, and a reader of the page that trusts nobody."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("workflows", "review")]

from workflow_data import stripes, tiny

import surelabel
from surelabel.api import Run

SCRIPT = "<script>document.title='broken'</script>"
TAG = '"><img src=http://example.org/x onerror=alert(1)>'
FORMULA = "$x_{ 漢字"
HOSTILE = {"across": SCRIPT, "down": TAG, "plain": FORMULA}


def train(place: Path, names: dict[str, str], *, held_out: int = 0, **changes: object) -> Run:
    """A run on forty striped images of each class; ``names`` says what people call the classes.

    The first five of each are labeled, and of as many more as ``held_out`` the label is held out.
    """
    photos = place / "photos"
    photos.mkdir(parents=True)
    rows = []
    for kind, label in names.items():
        for number in range(20):
            file = f"{kind}-{number:02d}<b onclick=alert(1)>&amp;.png"
            stripes(kind, number).save(photos / file)
            if number < 5 + held_out:
                rows.append((file, label, "train" if number < 5 else "tune"))
    labels = place / "labels.csv"
    with labels.open("w", newline="", encoding="utf-8") as file_:
        columns = 3 if held_out else 2
        writer = csv.writer(file_)
        writer.writerow(("path", "label", "split")[:columns])
        writer.writerows(row[:columns] for row in rows)
    config = tiny(place / "cache", **{"steps": 8, "accept": "top:6", **changes})
    return surelabel.label(photos, labels, place / "run", config=config)


@dataclass
class Figure:
    """What the page shows in one ``figure``."""

    src: str = ""
    alt: str = ""
    caption: str = ""


@dataclass
class Reader(HTMLParser):
    """The page as a browser takes it apart: tags, attributes, text, figures."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    text: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._figure = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        values = dict(attrs)
        if tag == "figure":
            self._figure = values["id"] or ""
            self.figures[self._figure] = Figure()
        if tag == "img" and self._figure:
            shown = self.figures[self._figure]
            shown.src, shown.alt = values["src"] or "", values["alt"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "figure":
            self._figure = ""
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text += data
        if self._figure and "figcaption" in self._open:
            self.figures[self._figure].caption += data


def read_page(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader
