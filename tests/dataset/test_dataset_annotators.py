"""Labels by several people: what a catalog keeps of them, and what later labels change."""

from __future__ import annotations

from pathlib import Path

import pytest
from dataset_files import labels_by_path, write_photos, write_text

from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.extend import extend_catalog
from surelabel.errors import LabelsError

PHOTOS = [f"{i}.png" for i in range(8)]


def catalog_of(folder: Path, table: str) -> Catalog:
    write_photos(folder / "photos", PHOTOS)
    labels = write_text(folder / "labels.csv", f"path,label,annotator\n{table}")
    return build_catalog(folder / "photos", labels, seed=0, cache=folder / "cache")


FOUR = "0.png,a,ann\n1.png,b,ann\n2.png,a,ann\n3.png,b,ann\n"


def add(catalog: Catalog, folder: Path, table: str, *, overwrite: bool = False) -> Catalog:
    labels = write_text(folder / "more.csv", f"path,label,annotator\n{table}")
    grown, _ = extend_catalog(
        catalog, None, labels, seed=0, cache=folder / "cache", overwrite=overwrite
    )
    return grown


def test_the_names_are_kept_and_survive_the_file(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, FOUR + "0.png,a,bob\n1.png,a,bob\n4.png,b,\n")
    assert labels_by_path(catalog) == {"0.png": "a", "2.png": "a", "3.png": "b", "4.png": "b"}
    assert len(catalog.votes) == 6
    catalog.to_parquet(tmp_path / "catalog.parquet")
    assert Catalog.from_parquet(tmp_path / "catalog.parquet").votes == catalog.votes


def test_labels_added_later_join_the_count(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, FOUR)
    tied = add(catalog, tmp_path, "0.png,b,bob\n")
    assert labels_by_path(tied)["0.png"] == "a", "at a tie the earlier label stands"
    decided = add(tied, tmp_path, "0.png,b,eve\n")
    assert labels_by_path(decided)["0.png"] == "b"
    assert {who for _, who, _ in decided.votes} == {"ann", "bob", "eve"}


def test_a_person_changes_a_label_only_with_overwrite(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, FOUR)
    for table in ("0.png,b,ann\n", "0.png,b,\n"):
        with pytest.raises(LabelsError, match=r"0\.png"):
            add(catalog, tmp_path, table)
    assert labels_by_path(add(catalog, tmp_path, "0.png,b,ann\n", overwrite=True))["0.png"] == "b"
