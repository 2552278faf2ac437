from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Skipped, item_ids, string_array
from surelabel.errors import RunDamagedError
from surelabel.types import Split


def catalog_of(paths: list[str], **changes: Any) -> Catalog:
    """Alternately labeled: train, tune, copied and pool images."""
    n = len(paths)
    kind = np.arange(n) % 4
    catalog = Catalog(
        ids=item_ids(paths),
        paths=string_array(paths),
        labels=np.array([0, 1, 1, -1], dtype=np.int64)[kind],
        sources=np.array(["given", "given", "copied", ""])[kind],
        splits=np.array(["train", "tune", "pool", "pool"])[kind],
        groups=np.array(["lot", "", "", ""])[kind],
        digests=string_array(f"{i:032x}" for i in range(n)),
        files=string_array(f"/photos/{path}" for path in paths),
        classes=("cat", "dog"),
        size=28,
        channels=3,
        cross_fit=False,
        skipped=(Skipped('bad, "very".jpg', "the file is empty"),),
    )
    return replace(catalog, **changes)


NAMES = [f"{i}.png" for i in range(12)]


def test_rows_are_found_in_the_given_order() -> None:
    catalog = catalog_of(NAMES)
    wanted = catalog.ids[[7, 0, 7, 3]]
    assert catalog.rows(wanted).tolist() == [7, 0, 7, 3]
    assert catalog.labels_of(wanted).tolist() == [-1, 0, -1, -1]
    assert catalog.row_of(str(wanted[0])) == 7
    assert catalog.row_of("0" * 16) is None
    assert catalog.row_of("no id") is None


def test_no_ids_have_no_rows() -> None:
    assert catalog_of(NAMES).rows(string_array([])).shape == (0,)
    assert catalog_of([]).rows(string_array([])).shape == (0,)


@pytest.mark.parametrize("names", [NAMES, []])
def test_unknown_ids_are_named(names: list[str]) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        catalog_of(names).rows(string_array(["nonsense"]))


def test_copied_labels_are_in_no_split() -> None:
    catalog = catalog_of(NAMES)
    parts = [catalog.in_split(split) for split in Split]
    parts.append(catalog.copied)
    assert sorted(np.concatenate(parts).tolist()) == sorted(catalog.ids.tolist())
    assert len(catalog.copied) == 3


def test_units_tie_groups_and_equal_bytes() -> None:
    twins = string_array(["a" * 32, "b" * 32] * 2 + [f"{i:032x}" for i in range(8)])
    catalog = catalog_of(NAMES, digests=twins)
    units = catalog.units(catalog.ids[[0, 1, 2, 3, 4, 5]])
    assert units[0] == units[2] == units[4]
    assert units[1] == units[3]
    assert len(set(units.tolist())) == 3


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths"):
        catalog_of(NAMES, labels=np.zeros(3, dtype=np.int64))


def test_an_id_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        catalog_of(["a.png", "a.png"])


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
        unique=True,
    )
)
def test_parquet_keeps_everything(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    path = tmp_path_factory.mktemp("c") / "catalog.parquet"
    before = catalog_of([f"{i}{name}" for i, name in enumerate(names)])
    before.to_parquet(path)
    after = Catalog.from_parquet(path)
    for name in ("ids", "paths", "labels", "sources", "splits", "groups", "digests", "files"):
        assert getattr(after, name).tolist() == getattr(before, name).tolist()
    assert (after.classes, after.size, after.channels) == (("cat", "dog"), 28, 3)
    assert after.cross_fit is False
    assert after.digest == before.digest


def test_the_digest_ignores_order_and_place() -> None:
    catalog = catalog_of(NAMES)
    order = np.random.default_rng(0).permutation(len(NAMES))
    columns: dict[str, Any] = {
        name: getattr(catalog, name)[order]
        for name in ("ids", "paths", "labels", "sources", "splits", "groups", "digests")
    }
    moved = replace(catalog, **columns, files=string_array(NAMES), skipped=())
    assert moved.digest == catalog.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": np.zeros(12, dtype=np.int64)},
        {"splits": np.full(12, "train")},
        {"classes": ("cat", "fox")},
        {"digests": string_array(f"{i:032x}" for i in range(1, 13))},
        {"size": 32},
    ],
)
def test_the_digest_sees_what_matters(changes: dict[str, Any]) -> None:
    assert catalog_of(NAMES, **changes).digest != catalog_of(NAMES).digest


def test_skipped_files_are_written_so_that_a_spreadsheet_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "skipped.csv"
    catalog_of(NAMES).write_skipped_csv(path)
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["path", "reason"],
            ['bad, "very".jpg', "the file is empty"],
        ]


def test_a_missing_or_foreign_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(RunDamagedError, match="missing"):
        Catalog.from_parquet(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(RunDamagedError, match="not a catalog"):
        Catalog.from_parquet(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(RunDamagedError, match="not a catalog"):
        Catalog.from_parquet(tmp_path / "other.parquet")
