"""Labels that people gave in Label Studio: its exports JSON, JSON_MIN, CSV and TSV.

One class per image: the answers of one ``Choices`` control with a single choice. Skipped tasks
have no label. Annotations that surelabel itself wrote into the project are not people's labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qs, unquote, urlsplit

from surelabel.dataset.annotation_files import read_json
from surelabel.dataset.items import LabelRow, Source, normalize_key
from surelabel.dataset.tables import cell_text, read_cells
from surelabel.errors import LabelsError
from surelabel.types import JsonObject

PATH_FIELD = "surelabel_path"
"""In the data of a task that surelabel wrote: the path of the image in the run."""
LABEL_FIELD = "surelabel_label"
"""In the data of a task that surelabel wrote with an annotation: its label."""
MARK = "surelabel"
"""In the ``meta`` of a result that surelabel wrote: the label as it wrote it."""

_LOCAL = "/data/local-files/"
_UPLOAD = "/data/upload/"
_UPLOAD_PREFIX = re.compile(r"^[0-9a-f]{8}-")
_BOOKKEEPING = frozenset(
    ["annotation_id", "annotator", "created_at", "updated_at", "lead_time", "id", "agreement"]
)
_MAX_SHOWN = 3


@dataclass(frozen=True)
class _Annotation:
    """One person's answer to one task."""

    where: str
    image: str
    """Where Label Studio finds the image: a link to a local file, an upload or an address."""
    path: str
    """The path that surelabel knows it by; empty if the task is not from surelabel."""
    label: str
    annotator: str


def is_label_studio_table(path: Path) -> bool:
    """Whether ``path`` is a table that Label Studio exported."""
    if path.suffix.lower() not in {".csv", ".tsv"}:
        return False
    header, _ = read_cells(path)
    return {"annotation_id", "annotator"} <= set(header) and "path" not in header


def attach_label_studio(source: Source, path: Path) -> Source:
    """``source`` with the labels in the export ``path``, and who gave them."""
    if path.suffix.lower() == ".json":
        annotations = list(_from_json(path))
    else:
        annotations = list(_from_table(path))
    if not annotations:
        raise LabelsError(f"{path} has no annotation with a choice: annotate some tasks first.")
    matcher = _ImageMatcher(source, annotations)
    rows, unknown = [], []
    for each in annotations:
        key = matcher.find(each)
        if key is None:
            unknown.append(each)
        else:
            rows.append(LabelRow(key, each.where, each.label, annotator=each.annotator))
    if unknown:
        shown = "; ".join(f"{each.where}: '{each.image}'" for each in unknown[:_MAX_SHOWN])
        more = f" and {len(unknown) - _MAX_SHOWN} more" if len(unknown) > _MAX_SHOWN else ""
        raise LabelsError(
            f"No image in {source.name} is the one of this task: {shown}{more}. Give the folder "
            "of images that the project shows."
        )
    return replace(source, label_rows=(*source.label_rows, *rows))


def _from_json(path: Path) -> Iterator[_Annotation]:
    """The annotations of a JSON or JSON_MIN export."""
    tasks = read_json(path)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise LabelsError(
            f"{path} is not a list of tasks. Export the project from Label Studio as JSON, "
            "JSON_MIN or CSV."
        )
    if all("annotations" in task and isinstance(task.get("data"), dict) for task in tasks):
        for number, task in enumerate(tasks, start=1):
            yield from _from_task(f"{path}: task {task.get('id', number)}", task)
    else:
        header = list(dict.fromkeys(key for task in tasks for key in task))
        named = ((f"{path}: task {t.get('id', i)}", t) for i, t in enumerate(tasks, start=1))
        yield from _from_records(path, header, named)


def _from_task(where: str, task: JsonObject) -> Iterator[_Annotation]:
    data = task["data"]
    for annotation in task["annotations"]:
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        here = f"{where}, annotation {annotation.get('id')}"
        results = [r for r in annotation.get("result") or [] if r.get("type") == "choices"]
        if len(results) > 1:
            raise LabelsError(
                f"{here} answers {len(results)} questions with choices. Keep the results of the "
                "one that names the class."
            )
        for result in results:
            label = _single(here, result.get("value", {}).get("choices"))
            mark = (result.get("meta") or {}).get(MARK)
            written = mark.get("label") if isinstance(mark, dict) else None
            if label and label != written:
                image = _image_field(here, data, str(result.get("to_name", "")))
                known = str(data.get(PATH_FIELD) or "")
                yield _Annotation(
                    here, image, known, label, _person(annotation.get("completed_by"))
                )


def _person(completed_by: object) -> str:
    """E-mail address or number of the account that annotated."""
    if isinstance(completed_by, dict):
        return str(completed_by.get("email") or completed_by.get("id") or "")
    return "" if completed_by is None else str(completed_by)


def _single(where: str, choices: object) -> str:
    if isinstance(choices, dict):  # JSON_MIN writes several choices so
        choices = choices.get("choices")
    names = choices if isinstance(choices, list) else [choices]
    if len(names) > 1:
        raise LabelsError(
            f"{where} has {len(names)} choices ({', '.join(map(str, names))}), and surelabel "
            "knows one class per image. Keep one of them."
        )
    return normalize_key(cell_text(names[0] if names else None).strip())


def _image_field(where: str, data: JsonObject, control: str) -> str:
    """The image of a task: the field that is called like its control, or the only likely one."""
    texts = {str(k): v for k, v in data.items() if isinstance(v, str) and not _is_ours(str(k))}
    likely = [name for name, value in texts.items() if _looks_like_image(value)]
    for name in (control, "image", *likely):
        if name in texts:
            return texts[name]
    raise LabelsError(f"{where} names no image in its data ({', '.join(data) or 'empty'}).")


def _is_ours(name: str) -> bool:
    return name.startswith("surelabel_")


def _looks_like_image(value: str) -> bool:
    return "/" in value or bool(PurePosixPath(value).suffix)


def _from_table(path: Path) -> Iterator[_Annotation]:
    header, records = read_cells(path)
    rows = [(where, dict(zip(header, cells, strict=False))) for where, cells in records]
    yield from _from_records(path, header, rows)


def _from_records(
    path: Path, header: Sequence[str], records: Iterable[tuple[str, Mapping[str, object]]]
) -> Iterator[_Annotation]:
    """The annotations of an export with one record per annotation."""
    rows = list(records)
    named = [name for name in header if name not in _BOOKKEEPING and not _is_ours(name)]
    images = [n for n in named if all(_looks_like_image(str(row.get(n) or "")) for _, row in rows)]
    image = "image" if "image" in named else images[0] if images else ""
    rest = [name for name in named if name != image]
    label = next((name for name in ("choice", "choices", "label") if name in rest), "")
    label = label or (rest[0] if len(rest) == 1 else "")
    if not image or not label:
        raise LabelsError(
            f"{path}: which of the columns {', '.join(named) or '(none)'} names the image, and "
            "which the class? Export the project as JSON, which says so."
        )
    for where, row in rows:
        if cell_text(row.get(LABEL_FIELD)):
            raise LabelsError(
                f"{where} has an annotation by surelabel itself, and this kind of export does not "
                "tell it from a person's: export the project as JSON."
            )
        found = _single(where, row.get(label))
        if found:
            known = cell_text(row.get(PATH_FIELD))
            who = cell_text(row.get("annotator"))
            yield _Annotation(where, str(row.get(image) or ""), known, found, who)


class _ImageMatcher:
    """Finds the image of a source that a task shows."""

    def __init__(self, source: Source, annotations: Sequence[_Annotation]) -> None:
        self._keys = set(source.keys)
        self._files: dict[str, list[tuple[str, str]]] = {}
        self._uploads: dict[str, list[str]] = {}
        self._prefix: str | None = None
        for key, file in zip(source.keys, source.files, strict=True):
            name = PurePosixPath(key).name
            self._files.setdefault(name, []).append((key, file))
            for known in {name, _upload_name(name)}:
                self._uploads.setdefault(known, []).append(key)
        paths = (normalize_key(_path_of(each.image)) for each in annotations)
        self._moved = not any(self._by_file(path) for path in paths if path)
        """Whether the images are no longer where Label Studio found them, or on another machine."""

    def find(self, annotation: _Annotation) -> str | None:
        """The key of the image; None if there is no such image."""
        if annotation.path and normalize_key(annotation.path) in self._keys:
            return normalize_key(annotation.path)
        path = normalize_key(_path_of(annotation.image))
        if annotation.image.startswith(_UPLOAD):
            name = _UPLOAD_PREFIX.sub("", PurePosixPath(path).name)
            return self._only(annotation, self._uploads.get(name, []))
        by_file = self._by_file(path)
        if by_file or not self._moved:
            return self._only(annotation, by_file)
        return self._below_one_folder(path)

    def _by_file(self, path: str) -> list[str]:
        """Keys of the files whose path ends in ``path``."""
        same_name = self._files.get(PurePosixPath(path).name, [])
        return [key for key, file in same_name if normalize_key(file).endswith(f"/{path}")]

    def _below_one_folder(self, path: str) -> str | None:
        """The key that is the end of ``path``; what comes before it must be the same for all."""
        parts = PurePosixPath(path).parts
        for n in range(len(parts)):
            key = "/".join(parts[n:])
            prefix = "/".join(parts[:n])
            if key in self._keys and self._prefix in (None, prefix):
                self._prefix = prefix
                return key
        return None

    def _only(self, annotation: _Annotation, keys: list[str]) -> str | None:
        if len(keys) > 1:
            raise LabelsError(
                f"{annotation.where}: '{annotation.image}' could be {keys[0]} or {keys[1]}. Give "
                "the folder of one of them, or rename one."
            )
        return keys[0] if keys else None


def _path_of(image: str) -> str:
    """The path in a link to a local file, below the document root, or in an address."""
    if _LOCAL in image:
        return (parse_qs(urlsplit(image).query).get("d") or [""])[0].strip("/")
    if "://" in image:
        return unquote(urlsplit(image).path).strip("/")
    return unquote(image).strip("/")


def _upload_name(name: str) -> str:
    """``name`` as Label Studio stores an upload of it."""
    return re.sub(r"[^-\w.]", "", name.strip().replace(" ", "_"))
