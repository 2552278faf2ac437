from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surelabel.dataset.build import label_catalog, read_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Mark
from surelabel.dataset.sources import array_source
from surelabel.errors import LabelsError
from surelabel.types import no_progress


@pytest.fixture
def blank(tmp_path: Path) -> Catalog:
    array = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    array[5] = array[0]
    return read_catalog(array_source(array, "x", "x"), tmp_path, no_progress)


def marks_of(labels: list[str], **more: str) -> dict[str, Mark]:
    keys = [f"x:{i:05d}" for i in range(len(labels))]
    pairs = zip(keys, labels, strict=True)
    return {k: Mark(k, f"t:{k}", label, **more) for k, label in pairs if label}


def test_labels_sources_and_copies_follow_from_marks(blank: Catalog) -> None:
    catalog = label_catalog(blank, marks_of(["b", "a", "b", "a"]), seed=0, tune_share=0.2)
    assert catalog.classes == ("a", "b")
    assert catalog.labels.tolist() == [1, 0, 1, 0, -1, 1]
    assert catalog.sources.tolist() == ["given"] * 4 + ["", "copied"]
    assert catalog.splits.tolist() == ["train"] * 4 + ["pool"] * 2
    assert catalog.cross_fit


def test_saying_it_again_changes_nothing(blank: Catalog) -> None:
    marks = marks_of(["b", "a", "b", "a"])
    once = label_catalog(blank, marks, seed=0, tune_share=0.2)
    assert label_catalog(once, marks, seed=0, tune_share=0.2).digest == once.digest
    assert label_catalog(once, {}, seed=0, tune_share=0.2).digest == once.digest


def test_a_copied_label_yields_to_a_person(blank: Catalog) -> None:
    once = label_catalog(blank, marks_of(["b", "a", "b", "a"]), seed=0, tune_share=0.2)
    own = {"x:00005": Mark("x:00005", "t:9", "a")}
    twice = label_catalog(once, own, seed=0, tune_share=0.2)
    assert (twice.labels[5], twice.sources[5]) == (0, "given")


def test_certify_labels_are_kept_and_not_copied(blank: Catalog) -> None:
    marks = marks_of(["", "a", "b", "a", "b"]) | {"x:00000": Mark("x:00000", "t", "b", "certify")}
    catalog = label_catalog(blank, marks, seed=0, tune_share=0.2)
    assert (catalog.splits[0], catalog.labels[0]) == ("certify", 1)
    assert (catalog.sources[5], catalog.labels[5]) == ("", -1)


def test_a_label_changes_only_when_asked_to(blank: Catalog) -> None:
    once = label_catalog(blank, marks_of(["b", "a", "b", "a", "b"]), seed=0, tune_share=0.2)
    other = {"x:00000": Mark("x:00000", "t:9", "a")}
    with pytest.raises(LabelsError, match=r"t:9: 'x:00000' has the label 'a' here and already 'b'"):
        label_catalog(once, other, seed=0, tune_share=0.2)
    changed = label_catalog(once, other, seed=0, tune_share=0.2, overwrite=True)
    assert changed.labels[0] == 0
