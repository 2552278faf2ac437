"""Write a result in the formats of FiftyOne, CVAT and COCO.

None of them has a place for an uncertainty but FiftyOne: there a label carries a confidence and
every measure as an attribute.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from surelabel.config.choices import Measure
from surelabel.dataset.annotation_files import FIFTYONE_DATA, FIFTYONE_LABELS, SYNSETS
from surelabel.export.columns import classes_in
from surelabel.export.image_folder import (
    Missing,
    PlacedById,
    place,
    write_class_map,
    write_image_folder,
)
from surelabel.files.large_tables import ids_of
from surelabel.files.mapped_arrays import slices
from surelabel.types import JsonObject, LabelSource, OnProgress, no_progress

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.array_store import PixelStore
    from surelabel.dataset.catalog import Catalog

FIFTYONE_UNLABELED = "_unlabeled"
"""FiftyOne's name of the folder of images without a label."""
_CVAT_SUBSET = "default.txt"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of files in an archive: its bytes depend on nothing but the labels."""


def write_class_tree(
    folder: Path,
    table: pd.DataFrame,
    catalog: Catalog,
    store: PixelStore,
    on_progress: OnProgress = no_progress,
    unlabeled: str = FIFTYONE_UNLABELED,
) -> list[Missing]:
    """One folder of images per class; FiftyOne's ``ImageClassificationDirectoryTree``."""
    labels = _labels(table)
    write_class_map(folder, labels)
    placements = place(catalog, table["id"].tolist(), labels, unlabeled)
    return write_image_folder(folder, placements, store, on_progress)


def write_fiftyone(
    folder: Path,
    table: pd.DataFrame,
    catalog: Catalog,
    store: PixelStore,
    on_progress: OnProgress = no_progress,
) -> list[Missing]:
    """``data/`` and ``labels.json``; FiftyOne's ``FiftyOneImageClassificationDataset``."""
    placements = PlacedById(catalog, ids_of(table["id"]), FIFTYONE_DATA)
    missing = write_image_folder(folder, placements, store, on_progress)
    lost = {each.path for each in missing}
    labels = {
        PurePosixPath(placement.target).stem: _fiftyone_label(row)
        for placement, row in zip(placements, _records(table), strict=True)
        if placement.path not in lost
    }
    content = {"classes": classes_in(table, catalog), "labels": labels}
    (folder / FIFTYONE_LABELS).write_text(_json(content) + "\n", encoding="utf-8")
    return missing


def write_cvat(path: Path, table: pd.DataFrame, catalog: Catalog) -> None:
    """A ``.zip`` of labels for CVAT's import as "ImageNet 1.0" into a task of the same images."""
    classes = classes_in(table, catalog)
    number = {name: k for k, name in enumerate(classes)}
    lines = [
        f"{_cvat_path(str(row['path']))} {number[row['label']]}\n"
        for row in _records(table)
        if row["label"]
    ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in ((_CVAT_SUBSET, "".join(lines)), (SYNSETS, "\n".join(classes) + "\n")):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text)


def write_coco(
    path: Path, table: pd.DataFrame, catalog: Catalog, sizes: Sequence[tuple[int, int]]
) -> None:
    """COCO's JSON with one annotation per labeled image and no boxes, as in COCO Camera Traps.

    ``sizes`` (N) are width and height of the images of ``table``.
    """
    classes = classes_in(table, catalog)
    number = {name: k for k, name in enumerate(classes, start=1)}
    info = {"description": f"Labeled with surelabel {version('surelabel')}"}
    categories = ({"id": k, "name": name} for name, k in number.items())
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{{\n "info": {_json(info, 1)},\n "images": ')
        file.writelines(_json_list(_coco_images(table, sizes)))
        file.write(',\n "categories": ')
        file.writelines(_json_list(categories))
        file.write(',\n "annotations": ')
        file.writelines(_json_list(_coco_annotations(table, number)))
        file.write("\n}\n")


def _coco_images(table: pd.DataFrame, sizes: Sequence[tuple[int, int]]) -> Iterator[JsonObject]:
    for i, (row, (width, height)) in enumerate(zip(_records(table), sizes, strict=True), start=1):
        facts = {"id": i, "file_name": row["path"], "width": width, "height": height}
        yield {**facts, "surelabel_id": row["id"]}


def _coco_annotations(table: pd.DataFrame, number: Mapping[str, int]) -> Iterator[JsonObject]:
    labeled = ((i, row) for i, row in enumerate(_records(table), start=1) if row["label"])
    for k, (i, row) in enumerate(labeled, start=1):
        score = {} if _confidence(row) is None else {"score": _confidence(row)}
        category = {"category_id": number[row["label"]], "source": row["source"]}
        yield {"id": k, "image_id": i, **category, **score}


def _json_list(values: Iterator[JsonObject]) -> Iterator[str]:
    """``values`` as a list in an object, in the form of ``_json``: they need not fit in memory."""
    begin = "[\n  "
    for value in values:
        yield begin + _json(value, 2)
        begin = ",\n  "
    yield "[]" if begin.startswith("[") else "\n ]"


def _labels(table: pd.DataFrame) -> list[str]:
    return [str(label) for label in table["label"].fillna("")]


def _records(table: pd.DataFrame) -> Iterator[JsonObject]:
    for part in slices(len(table)):
        some = table.iloc[part]
        filled = some.assign(label=_labels(some), guess=some["guess"].fillna(""))
        for row in filled.to_dict("records"):
            yield {str(name): value for name, value in row.items()}


def _fiftyone_label(row: JsonObject) -> JsonObject | None:
    """A label with its confidence; None without one."""
    if not row["label"]:
        return None
    measures = {str(m): _number(row.get(str(m))) for m in Measure}
    known = {name: value for name, value in measures.items() if value is not None}
    confidence = {} if _confidence(row) is None else {"confidence": _confidence(row)}
    return {"label": row["label"], **confidence, "attributes": {"source": row["source"], **known}}


def _confidence(row: JsonObject) -> float | None:
    """The probability of a label by the run; None for people's labels."""
    if row["source"] != LabelSource.PSEUDO or row["label"] != row["guess"]:
        return None
    calibrated = _number(row.get("calibrated"))
    return _number(row["probability"]) if calibrated is None else calibrated


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _cvat_path(path: str) -> str:
    """``path`` as CVAT writes it: in quotes, but for the ending, if it has spaces."""
    if not any(character.isspace() for character in path):
        return path
    ending = PurePosixPath(path).suffix
    return f'"{path.removesuffix(ending)}"{ending}'


def _json(content: object, depth: int = 0) -> str:
    """Readable JSON, as it looks inside ``depth`` lists and objects."""
    text = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
    return text.replace("\n", "\n" + depth * " ")
