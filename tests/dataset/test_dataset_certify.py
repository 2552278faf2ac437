from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.build import build_catalog
from surelabel.dataset.items import Mark
from surelabel.dataset.sampling import draw, write_draw
from surelabel.dataset.splits import certify_population, draw_certify, unanswered
from surelabel.types import Split


def marks(n: int, **fields: str) -> dict[str, Mark]:
    return {f"{i:02d}": Mark(f"{i:02d}", f"t:{i}", "cat", **fields) for i in range(n)}


def test_vouched_labels_are_drawn_uniformly_and_by_seed() -> None:
    counts: Counter[str] = Counter()
    for seed in range(400):
        drawn = draw_certify(marks(12), seed=seed, share=1 / 3)
        chosen = [key for key, mark in drawn.items() if mark.split == Split.CERTIFY]
        assert len(chosen) == 4
        counts.update(chosen)
    assert all(90 <= counts[f"{i:02d}"] <= 180 for i in range(12))
    assert draw_certify(marks(12), seed=1, share=0.5) == draw_certify(marks(12), seed=1, share=0.5)


def test_groups_are_drawn_whole_and_given_splits_are_obeyed() -> None:
    grouped = {k: Mark(k, "t", "cat", group=f"lot {int(k) // 3}") for k in marks(12)}
    drawn = draw_certify(grouped, seed=3, share=0.5)
    by_group: dict[str, set[str]] = {mark.group: set() for mark in drawn.values()}
    for mark in drawn.values():
        by_group[mark.group].add(mark.split)
    assert all(len(splits) == 1 for splits in by_group.values())
    given = marks(3) | {"x": Mark("x", "t", "cat", split="certify")}
    assert draw_certify(given, seed=0, share=0.5) == given
    trained = marks(5, split="train")
    assert draw_certify(trained, seed=0, share=0.5) == trained


def test_passed_over_is_what_has_a_later_label() -> None:
    table = {
        "a": Mark("a", "t", "", "certify"),
        "b": Mark("b", "t", "cat"),
        "c": Mark("c", "t", "", "certify"),
        "d": Mark("d", "t", ""),
        "e": Mark("e", "t", "dog"),
        "f": Mark("f", "t", "", "certify"),
    }
    assert unanswered(table) == {"a", "c"}
    assert unanswered({}) == set()


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
    note = (tmp_path / "labels.csv.draw.json").read_text(encoding="utf-8")
    assert '"seed": 5' in note
    assert table["path"][0] in note


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
def test_a_vouched_share_is_hidden_in_the_pool(tmp_path: Path, share: float) -> None:
    images = np.random.default_rng(0).integers(0, 255, (80, 8, 8), dtype=np.uint8)
    labels = np.where(np.arange(80) < 60, np.arange(80) % 2, -1)
    catalog = build_catalog(images, labels, seed=2, certify_share=share, cache=tmp_path)
    assert len(catalog.in_split(Split.CERTIFY)) == round(share * 60)
