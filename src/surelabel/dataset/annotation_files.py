"""Labels in the files of other tools: FiftyOne's and COCO's JSON, CVAT's ImageNet text.

Each names images by path and gives one class per image. FiftyOne leaves out the ending of the
file name; COCO numbers images and classes; CVAT numbers classes in ``synsets.txt``.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from surelabel.dataset.items import Source, normalize_key
from surelabel.dataset.locations import MAX_BYTES
from surelabel.dataset.tables import Table, TableRow, cell_text
from surelabel.errors import LabelsError
from surelabel.types import JsonObject

FIFTYONE_DATA, FIFTYONE_LABELS = "data", "labels.json"
"""Folder of images and file of labels of FiftyOne's image classification dataset."""
SYNSETS = "synsets.txt"
"""The class names of CVAT's ImageNet text, one per line."""
_LINE = re.compile(
    r'(?:"(?P<quoted>[^"]*)"(?P<ending>\S*)|(?P<plain>\S+))(?P<numbers>(?:\s+\S+)*)\s*'
)


def is_label_json(content: object) -> bool:
    """Whether ``content``, read from a JSON file, are labels of FiftyOne or COCO."""
    return isinstance(content, dict) and ("labels" in content or "annotations" in content)


def json_table(path: Path, content: JsonObject, source: Source) -> Table:
    """The labels in FiftyOne's or COCO's JSON as a table of paths."""
    if "annotations" in content:
        rows = _coco_rows(path, content)
    else:
        rows = _fiftyone_rows(path, content, source)
    return Table(str(path), path.parent, has_labels=True, by_index=False, rows=tuple(rows))


def text_table(path: Path) -> Table:
    """The labels in CVAT's ImageNet text: a ``.txt`` beside ``synsets.txt``, or a ``.zip``."""
    if path.suffix.lower() == ".zip":
        named, classes = _unzipped(path)
    else:
        named = {str(path): _text(path, path.read_bytes)}
        synsets = path.parent / SYNSETS
        classes = _text(synsets, synsets.read_bytes).splitlines()
    rows = [row for name, text in named.items() for row in _imagenet_rows(name, text, classes)]
    return Table(str(path), path.parent, has_labels=True, by_index=False, rows=tuple(rows))


def read_json(path: Path) -> Any:
    """The content of a JSON file, or a ``LabelsError``."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise LabelsError(f"{path} cannot be read as JSON ({error}): export it again.") from None


def _fiftyone_rows(path: Path, content: JsonObject, source: Source) -> Iterator[TableRow]:
    classes, labels = content.get("classes"), content["labels"]
    if not isinstance(labels, dict):
        raise LabelsError(f"{path}: 'labels' has to name the label of each image: {{...}}.")
    keys = _by_stem(source)
    for name, target in labels.items():
        where = f"{path}: '{name}'"
        stated = target if isinstance(target, dict) else {"label": target}
        made_by = str((stated.get("attributes") or {}).get("source", ""))
        label = stated.get("label")
        if isinstance(label, int) and not isinstance(label, bool):
            label = _nth(where, classes if isinstance(classes, list) else [], label)
        if isinstance(label, list | dict):
            raise LabelsError(f"{where} has several labels, and surelabel knows one per image.")
        stem = normalize_key(name)
        found = keys.get(stem) or keys.get(f"{FIFTYONE_DATA}/{stem}") or name
        yield TableRow(where, found, normalize_key(cell_text(label)), source=made_by)


def _by_stem(source: Source) -> dict[str, str]:
    """Keys by path without the ending; a path that two images share leads to neither."""
    stems: dict[str, str] = {}
    for key in source.keys:
        stem = str(PurePosixPath(key).with_suffix(""))
        stems[stem] = "" if stem in stems else key
    return stems


def _coco_rows(path: Path, content: JsonObject) -> Iterator[TableRow]:
    try:
        files = {image["id"]: str(image["file_name"]) for image in content["images"]}
        names = {each["id"]: str(each["name"]) for each in content["categories"]}
        annotations = [
            (each["image_id"], each["category_id"], str(each.get("source", "")))
            for each in content["annotations"]
        ]
    except (KeyError, TypeError) as error:
        raise LabelsError(
            f"{path} is not COCO: {error} is missing. It has to list images (id, file_name), "
            "categories (id, name) and annotations (image_id, category_id)."
        ) from None
    seen: dict[str, str] = {}
    for number, (image, category, made_by) in enumerate(annotations, start=1):
        where = f"{path}: annotation {number}"
        if image not in files or category not in names:
            what = f"image {image}" if image not in files else f"category {category}"
            raise LabelsError(f"{where} is about {what}, which the file does not list.")
        file, label = files[image], normalize_key(names[category])
        if seen.setdefault(file, label) != label:
            raise LabelsError(
                f"{where}: '{file}' is {label} here and {seen[file]} before, and surelabel knows "
                "one class per image. Keep one of them."
            )
        yield TableRow(where, file, label, source=made_by)
    yield from (TableRow(f"{path}", file) for file in files.values() if file not in seen)


def _imagenet_rows(name: str, text: str, classes: list[str]) -> Iterator[TableRow]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{name}:{number}"
        match = _LINE.fullmatch(line)
        numbers = match["numbers"].split() if match else []
        if match is None or len(numbers) > 1 or not all(n.isdecimal() for n in numbers):
            raise LabelsError(f"{where} is not the path of an image and the number of one class.")
        path = match["plain"] if match["quoted"] is None else match["quoted"] + match["ending"]
        label = _nth(where, classes, int(numbers[0])) if numbers else ""
        yield TableRow(where, path, normalize_key(label))


def _nth(where: str, classes: list[Any], number: int) -> str:
    if not 0 <= number < len(classes):
        raise LabelsError(f"{where} has the class number {number}, and there are {len(classes)}.")
    return str(classes[number]).strip()


def _unzipped(path: Path) -> tuple[Mapping[str, str], list[str]]:
    """The texts in a ``.zip`` of CVAT by name, and its class names."""
    try:
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
            n_bytes = sum(each.file_size for each in archive.infolist())
            if n_bytes > MAX_BYTES:
                raise LabelsError(
                    f"{path} unpacks to more than {MAX_BYTES // 2**20} MB: export the labels "
                    "without images."
                )
            texts = {
                name: _text(Path(f"{path}/{name}"), lambda name=name: archive.read(name))  # type: ignore[misc]
                for name in archive.namelist()
                if name.endswith(".txt")
            }
    except (OSError, zipfile.BadZipFile) as error:
        raise LabelsError(f"{path} cannot be read as ZIP ({error}): export it again.") from None
    classes = texts.pop(SYNSETS, None)
    if classes is None:
        raise LabelsError(
            f"{path} has no {SYNSETS}. Unpack it and give the folder, if it holds images by class; "
            "or export from CVAT as 'ImageNet 1.0' without images."
        )
    return {f"{path}/{name}": text for name, text in texts.items()}, classes.splitlines()


def _text(path: Path, read: Callable[[], bytes]) -> str:
    try:
        return read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise LabelsError(f"{path} cannot be read: {reason}.") from None
