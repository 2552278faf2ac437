"""Write a run as a Label Studio project: ``tasks.json`` and ``labeling-config.xml``.

Each task carries the run's guess as a prediction, with score, model version and measures; the
image from whose label the run would learn most comes first.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree

from surelabel.config.choices import Measure
from surelabel.dataset.items import absolute
from surelabel.dataset.label_studio import LABEL_FIELD, MARK, PATH_FIELD
from surelabel.dataset.locations import Location
from surelabel.errors import OptionError
from surelabel.export.columns import classes_in
from surelabel.types import NONE_TEXT, JsonObject, LabelSource

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.dataset.catalog import Catalog

TASKS = "tasks.json"
CONFIG = "labeling-config.xml"
_CONTROL, _IMAGE = "choice", "image"


@dataclass(frozen=True)
class LabelStudioOptions:
    """How Label Studio finds the images, and whether it gets labels beside predictions."""

    document_root: Path | None = None
    """Its ``LOCAL_FILES_DOCUMENT_ROOT``; by default the folder above the images."""
    url: str = ""
    """The address under which the image folder is served; then no local files are used."""
    annotate_as: str = ""
    """An account that is no person's: labels become its annotations. Empty: predictions only."""


def write_project(
    folder: Path, table: pd.DataFrame, catalog: Catalog, options: LabelStudioOptions
) -> int:
    """Write the project into ``folder``; returns the number of tasks.

    Tasks are the images without a label, or all images if labels become annotations.
    """
    if options.annotate_as and "@" not in options.annotate_as:
        raise OptionError(
            f"The account '{options.annotate_as}' is no e-mail address. Make an account in Label "
            "Studio that stands for surelabel and belongs to no person, and give its address."
        )
    links = _links(catalog, options)
    tasks = list(_tasks(table, links, options.annotate_as))
    (folder / TASKS).write_text(json.dumps(tasks, ensure_ascii=False, indent=1), encoding="utf-8")
    config = labeling_config(classes_in(table, catalog))
    (folder / CONFIG).write_text(config, encoding="utf-8")
    return len(tasks)


def labeling_config(classes: Sequence[str]) -> str:
    """The labeling interface: the image and one choice per class."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name=_IMAGE, value=f"${_IMAGE}")
    settings = {"name": _CONTROL, "toName": _IMAGE, "choice": "single", "showInline": "true"}
    choices = ElementTree.SubElement(view, "Choices", settings)
    for name in dict.fromkeys([*classes, NONE_TEXT]):
        ElementTree.SubElement(choices, "Choice", value=name)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def served_folders(
    catalog: Catalog, options: LabelStudioOptions
) -> tuple[Path, Path] | tuple[None, None]:
    """The document root and the folder of images; None if images have addresses.

    Label Studio serves only folders below its document root, never that folder itself.
    """
    if options.url:
        return None, None
    files = [str(file) for file in catalog.files if file and Location.parse(file).is_plain]
    if len(files) < len(catalog):
        raise OptionError(
            "The images are no files of this machine, so Label Studio cannot read them: write them "
            "with --to folder, serve that folder, and give its address with --url."
        )
    images = Path(os.path.commonpath([str(Path(file).parent) for file in files]))
    return Path(absolute(options.document_root or images.parent)), images


def _links(catalog: Catalog, options: LabelStudioOptions) -> dict[str, str]:
    """What Label Studio calls each image, by id."""
    if options.url:
        base = options.url.rstrip("/")
        named = zip(catalog.ids.tolist(), catalog.paths.tolist(), strict=True)
        return {item_id: f"{base}/{quote(path)}" for item_id, path in named}
    root, images = served_folders(catalog, options)
    assert root is not None
    assert images is not None
    if not images.is_relative_to(root) or images == root:
        raise OptionError(
            f"{images} is not a folder below {root}, and Label Studio serves nothing else. Give "
            f"the document root that it is started with; {images.parent} would do."
        )
    links = {}
    for item_id, file in zip(catalog.ids.tolist(), catalog.files.tolist(), strict=True):
        links[item_id] = f"/data/local-files/?d={quote(Path(file).relative_to(root).as_posix())}"
    return links


def _tasks(table: pd.DataFrame, links: dict[str, str], account: str) -> Iterator[JsonObject]:
    """The images to label, most useful first; then, with ``account``, those with a label."""
    usefulness = table[str(Measure.MUTUAL_INFORMATION)].fillna(-1.0)
    left = table["source"] == str(LabelSource.NONE)
    ordered = table.assign(_left=left, _useful=usefulness).sort_values(
        ["_left", "_useful", "id"], ascending=[False, False, True]
    )
    for row in (ordered if account else ordered[ordered["_left"]]).to_dict("records"):
        values = {str(name): value for name, value in row.items() if not str(name).startswith("_")}
        yield _task(values, links[str(row["id"])], account)


def _task(row: JsonObject, link: str, account: str) -> JsonObject:
    data = {_IMAGE: link, "surelabel_id": row["id"], PATH_FIELD: row["path"]}
    known = {name: _plain(value) for name, value in row.items() if name not in ("id", "path")}
    task: JsonObject = {"data": data, "meta": {k: v for k, v in known.items() if v is not None}}
    if row["guess"] and row["guess"] == row["guess"]:
        likely = known.get("calibrated")
        task["predictions"] = [
            {
                "model_version": f"surelabel-{version('surelabel')}",
                "score": known["probability"] if likely is None else likely,
                "result": [_result(str(row["guess"]), {})],
            }
        ]
    if account and row["label"]:
        data[LABEL_FIELD] = row["label"]
        mark = {"meta": {MARK: {"label": row["label"], "source": row["source"]}}}
        task["annotations"] = [
            {
                "completed_by": {"email": account},
                "ground_truth": False,
                "result": [_result(str(row["label"]), mark)],
            }
        ]
    return task


def _result(label: str, more: JsonObject) -> JsonObject:
    names = {"from_name": _CONTROL, "to_name": _IMAGE, "type": "choices"}
    return {"id": "class", **names, "value": {"choices": [label]}, **more}


def _plain(value: object) -> object:
    """``value`` for JSON; None for what is missing."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, str | int | bool):
        return value
    item = getattr(value, "item", None)
    return _plain(item()) if callable(item) else None
