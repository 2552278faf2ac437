from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.build import build_catalog
from surelabel.dataset.items import LabelRow
from surelabel.dataset.sampling import draw, write_draw
from surelabel.dataset.splits import certify_population, draw_certify, unanswered_certify
from surelabel.errors import InputError, OptionError
from surelabel.types import Split


def test_a_drawn_table_comes_back_filled_in(tmp_path: Path) -> None:
    names = ["a,b.png", 'say "hi".png', "two\nlines.png", "-rf.png", "ü.png", "x/y.png", "z.png"]
    photos = write_photos(tmp_path / "photos", names)
    table = draw(photos, 6, seed=1)
    assert table.columns.tolist() == ["path", "label"]
    assert set(table["path"]) <= set(names)
    assert len(set(table["path"])) == 6
    table["label"] = ["cat", "dog", "cat", "dog", "", ""]
    write_draw(table, tmp_path / "elsewhere" / "labels.csv")
    catalog = build_catalog(
        photos, tmp_path / "elsewhere" / "labels.csv", seed=0, cache=tmp_path / "c"
    )
    assert int((catalog.labels >= 0).sum()) == 4


def test_the_seed_decides_and_the_label_is_empty(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(30)])
    assert draw(photos, 9, seed=1).equals(draw(photos, 9, seed=1))
    assert not draw(photos, 9, seed=1).equals(draw(photos, 9, seed=2))
    assert set(draw(photos, 9, seed=1)["label"]) == {""}


def test_every_image_is_equally_likely(tmp_path: Path) -> None:
    array = np.zeros((20, 4, 4), dtype=np.uint8)
    counts = dict.fromkeys([f"array:{i:05d}" for i in range(20)], 0)
    for seed in range(400):
        for path in draw(array, 5, seed=seed)["path"]:
            counts[path] += 1
    assert all(60 <= count <= 140 for count in counts.values())


def test_unreadable_images_are_not_drawn(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png", "2.png"])
    for i in range(20):
        write_text(photos / f"bad{i}.png", "")
    assert sorted(draw(photos, 5, seed=0)["path"]) == ["1.png", "2.png"]
    (photos / "1.png").unlink()
    (photos / "2.png").unlink()
    with pytest.raises(InputError, match="no image that can be read"):
        draw(photos, 5, seed=0)


def test_none_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="0 images"):
        draw(tmp_path, 0, seed=0)


def test_certify_is_a_share_and_tables_are_text(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png"])
    with pytest.raises(OptionError, match="certify is 60"):
        draw(photos, 1, seed=0, certify=60)
    with pytest.raises(OptionError, match=r"ends in .csv or .tsv"):
        write_draw(draw(photos, 1, seed=0), tmp_path / "drawn.xlsx")


def test_answers_are_never_overwritten(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png"])
    path = write_text(tmp_path / "labels.csv", "path,label\n1.png,cat\n")
    with pytest.raises(InputError, match="--out"):
        write_draw(draw(photos, 1, seed=0), path)
    assert path.read_text() == "path,label\n1.png,cat\n"
    write_draw(draw(photos, 1, seed=0), tmp_path / "l.tsv")
    assert (tmp_path / "l.tsv").read_text() == "path\tlabel\n1.png\t\n"


def label_rows(n: int, **fields: Any) -> dict[str, LabelRow]:
    return {f"{i:02d}": LabelRow(f"{i:02d}", f"t:{i}", "cat", **fields) for i in range(n)}


def test_certify_labels_are_drawn_uniformly_and_by_seed() -> None:
    counts: Counter[str] = Counter()
    for seed in range(400):
        drawn = draw_certify(label_rows(12), seed=seed, share=1 / 3)
        chosen = [key for key, row in drawn.items() if row.split == Split.CERTIFY]
        assert len(chosen) == 4
        counts.update(chosen)
    assert all(90 <= counts[f"{i:02d}"] <= 180 for i in range(12))
    assert draw_certify(label_rows(12), seed=1, share=0.5) == draw_certify(
        label_rows(12), seed=1, share=0.5
    )


def test_groups_are_drawn_whole_and_given_splits_are_obeyed() -> None:
    grouped = {k: LabelRow(k, "t", "cat", group=f"lot {int(k) // 3}") for k in label_rows(12)}
    drawn = draw_certify(grouped, seed=3, share=0.5)
    by_group: dict[str, set[str]] = {row.group: set() for row in drawn.values()}
    for row in drawn.values():
        by_group[row.group].add(row.split)
    assert all(len(splits) == 1 for splits in by_group.values())
    given = label_rows(3) | {"x": LabelRow("x", "t", "cat", split="certify")}
    assert draw_certify(given, seed=0, share=0.5) == given
    trained = label_rows(5, split="train")
    assert draw_certify(trained, seed=0, share=0.5) == trained


def test_a_certify_image_is_unanswered_if_a_later_row_has_a_label() -> None:
    table = {
        "a": LabelRow("a", "t", "", "certify"),
        "b": LabelRow("b", "t", "cat"),
        "c": LabelRow("c", "t", "", "certify"),
        "d": LabelRow("d", "t", ""),
        "e": LabelRow("e", "t", "dog"),
        "f": LabelRow("f", "t", "", "certify"),
    }
    assert unanswered_certify(table) == {"a", "c"}
    assert unanswered_certify({}) == set()


def test_copies_of_labeled_images_neither_certify_nor_need_it(tmp_path: Path) -> None:
    names = [f"{i}.png" for i in range(8)]
    photos = write_photos(tmp_path / "photos", names)
    for copy in ("copy.png", "drawn.png"):
        (photos / copy).write_bytes((photos / "0.png").read_bytes())
    text = "path,label,split\n0.png,cat,train\n1.png,dog,train\n2.png,cat,train\n3.png,dog,train\n"
    labels = write_text(tmp_path / "l.csv", text + "4.png,cat,certify\ndrawn.png,cat,certify\n")
    catalog = build_catalog(photos, labels, seed=0, cache=tmp_path / "c")
    hidden = [catalog.in_split(Split.POOL), catalog.in_split(Split.CERTIFY)]
    population, certify = certify_population(catalog, np.concatenate(hidden))
    assert sorted(catalog.paths[catalog.rows(population)]) == ["4.png", "5.png", "6.png", "7.png"]
    assert catalog.paths[catalog.rows(certify)].tolist() == ["4.png"]


def test_none_of_these_outside_of_certify_is_neither_trained_on_nor_labeled(
    tmp_path: Path,
) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(7)])
    text = "path,label\n0.png,cat\n1.png,dog\n2.png,cat\n3.png,dog\n4.png,none of these\n"
    labels = write_text(tmp_path / "l.csv", text)
    catalog = build_catalog(photos, labels, seed=0, cache=tmp_path / "c")
    assert catalog.classes == ("cat", "dog")
    pool = catalog.paths[catalog.rows(catalog.in_split(Split.POOL))].tolist()
    assert sorted(pool) == ["5.png", "6.png"]


def test_a_draw_spreads_certify_images_evenly_and_records_itself(tmp_path: Path) -> None:
    images = np.zeros((300, 4, 4), dtype=np.uint8)
    table = draw(images, 180, seed=5)
    assert (table["split"] == "certify").sum() == 60
    assert (table["split"][:90] == "certify").sum() == 30
    assert "split" not in draw(images, 100, seed=5)
    assert (draw(images, 100, seed=5, certify=1.0)["split"] == "certify").all()
    write_draw(table, tmp_path / "labels.csv")
    record = (tmp_path / "labels.csv.draw.json").read_text(encoding="utf-8")
    assert '"seed": 5' in record
    assert table["path"][0] in record


def test_a_second_draw_leaves_out_the_first(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(9)])
    first = draw(photos, 4, seed=1)
    write_draw(first, tmp_path / "labels.csv")
    second = draw(photos, 9, seed=1, without=tmp_path / "labels.csv")
    assert set(first["path"]).isdisjoint(second["path"])
    assert len(second) == 5


def test_where_images_have_groups_whole_groups_are_drawn(tmp_path: Path) -> None:
    write_photos(tmp_path, [f"{i}.png" for i in range(12)])
    rows = "".join(f"{i}.png,lot{i // 3}\n" for i in range(12))
    table = draw(write_text(tmp_path / "images.csv", "path,group\n" + rows), 5, seed=2, certify=0.5)
    lots = Counter(int(path.split(".")[0]) // 3 for path in table["path"])
    assert list(lots.values()) == [3, 3]
    by_lot = table.groupby(table["path"].str.split(".").str[0].astype(int) // 3)["split"].nunique()
    assert by_lot.tolist() == [1, 1]


@pytest.mark.parametrize("share", [0.1, 1 / 3, 0.5])
def test_the_certify_share_of_random_labels_is_hidden(tmp_path: Path, share: float) -> None:
    images = np.random.default_rng(0).integers(0, 255, (80, 8, 8), dtype=np.uint8)
    labels = np.where(np.arange(80) < 60, np.arange(80) % 2, -1)
    catalog = build_catalog(images, labels, seed=2, certify_share=share, cache=tmp_path)
    assert len(catalog.in_split(Split.CERTIFY)) == round(share * 60)
