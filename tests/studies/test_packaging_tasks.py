"""What the runs of the packaging study are given."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from surelabel.errors import InputError, LabelsError
from surelabel_studies.packaging.paper import RUNS, TOTALS
from surelabel_studies.packaging.sets import Made, make, own_sets, painted_over, parse_box
from surelabel_studies.packaging.tasks import (
    EXPERIMENTS,
    Experiment,
    experiment_table,
    set4_table,
    task_of,
)
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import COUNTS, Category, Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates


def photographs(like: Like, folder: Path) -> pd.DataFrame:
    """A table like the paper's set, whose files are not there."""
    categories = [str(c) for c, n in COUNTS[like].items() for _ in range(n)]
    n = len(categories)
    rng = np.random.default_rng(0)
    dated = np.isin(categories, [Category.COMPLETE, Category.UNREADABLE])
    return pd.DataFrame(
        {
            "file": [str(folder / f"{i}.jpg") for i in range(n)],
            "category": categories,
            "location": [f"place {i % 7}" for i in range(n)],
            "day": np.where(dated, rng.choice([5, 8, 16, 20, 1], n), np.nan),
            "month": np.where(dated, rng.choice([9, 10, 11, 1], n), np.nan),
            "day_box": "10 10 20 20",
            "month_box": "30 10 40 20",
            "difficulty": 0.1,
        }
    )


def test_the_papers_tables_add_up() -> None:
    assert TOTALS[Like.SET4] == 13_948
    assert {name: run.n for name, run in RUNS.items()} == {
        "baseline": 902,
        "tau": 466,
        "penalty": 456,
    }


@pytest.mark.parametrize(
    "experiment", [e for e in EXPERIMENTS if e.kinds[1].made is None], ids=lambda e: e.key
)
def test_experiments_have_the_papers_counts(experiment: Experiment, tmp_path: Path) -> None:
    photos = photographs(experiment.like, tmp_path)
    table = experiment_table(experiment, photos, tmp_path, seed=0)
    assert table is not None
    counts = table["truth"].value_counts()
    for kind in experiment.kinds:
        if not kind.column:
            assert counts[kind.name] == kind.paper_n
        assert 0 < counts[kind.name] <= kind.paper_n
    assert not table["file"].duplicated().any()
    assert (table["split"] == "test").mean() == pytest.approx(0.2, abs=0.02)


@pytest.fixture(scope="module")
def set3(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("sets")
    write_use_by_dates(folder / "set3", Settings(Like.SET3, 0, 0.06, 299), workers=1)
    return own_sets(folder)[Like.SET3]


@pytest.mark.parametrize(("name", "how"), [("2", Made.PARTIAL), ("2.1", Made.BLANK)])
def test_a_class_is_filled_from_images_of_its_own_part(
    set3: pd.DataFrame, tmp_path: Path, name: str, how: Made
) -> None:
    chosen = [e for e in EXPERIMENTS if (e.name, e.like) == (name, Like.SET3)]
    table = experiment_table(chosen[0], set3, tmp_path, seed=1)
    assert table is not None
    made = table[table["file"].str.startswith(str(tmp_path))]
    assert len(made) > 0
    assert (made["truth"] == "NOT-OK").all()
    assert not table["file"].duplicated().any()
    stems = {Path(file).stem for file in table["file"]}
    for file in made["file"]:
        assert Path(file).name.startswith(str(how))
        assert Path(file).stem.rpartition("-")[2] not in stems


def _stem(file: object) -> str:
    return Path(str(file)).stem


def test_copies_stay_in_the_part_of_their_original(tmp_path: Path) -> None:
    photos = photographs(Like.SET1, tmp_path).iloc[::40]
    for file in photos["file"]:
        Image.new("RGB", (40, 40), "gray").save(file)
    experiment = EXPERIMENTS[0]
    table = experiment_table(experiment, photos, tmp_path / "made", seed=0)
    assert table is not None
    part = dict(zip(map(_stem, table["file"]), table["split"].astype(str), strict=True))
    copies = [stem for stem in part if stem.startswith("copy-")]
    assert len(copies) > 0
    for stem in copies:
        assert part[stem] == part[stem.rpartition("-")[2]]


def test_a_date_is_painted_over_and_the_rest_stays(tmp_path: Path) -> None:
    pixels = np.full((60, 80, 3), 200, dtype=np.uint8)
    pixels[20:30, 30:50] = 0
    painted = np.asarray(
        painted_over(Image.fromarray(pixels), [(30, 20, 50, 30)], np.random.default_rng(0))
    )
    assert (painted == 200).all()
    Image.fromarray(pixels).save(tmp_path / "a.png")
    boxes = ["30 20 50 30", "60 40 70 50"]
    month = make(Made.PARTIAL, tmp_path / "a.png", boxes, 1, tmp_path / "month.jpg")
    assert np.asarray(Image.open(month))[25, 40].mean() < 20
    assert parse_box(boxes[0]) == (30, 20, 50, 30)


def test_set_4_is_split_as_in_the_paper() -> None:
    photos = photographs(Like.SET4, Path("x"))
    table = set4_table(photos, seed=0)
    assert table is not None
    assert table["split"].value_counts().to_dict() == {"test": 11_948, "tune": 1500, "train": 500}
    without = set4_table(photos, seed=0, without="place 3")
    assert without is not None
    known = without[without["split"] != "test"]
    assert not (known["location"] == "place 3").any()
    pools = [t[t["split"] == "test"]["file"].tolist() for t in (table, without)]
    assert pools[0] == pools[1]


def test_what_set_4_is_too_small_for_has_no_table() -> None:
    some = photographs(Like.SET4, Path("x")).iloc[::40]
    assert set4_table(some, seed=0) is not None
    assert set4_table(some[::9], seed=0) is None
    assert set4_table(some[some["category"] == "complete"], seed=0) is None
    torn = some.assign(location=some["category"])
    assert set4_table(torn, seed=0, without="unreadable") is None
    assert set4_table(torn, seed=0, without="elsewhere") is not None


def test_the_truth_of_test_images_is_not_written(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "file": [str(tmp_path / "images" / f"{i}.jpg") for i in range(3)],
            "truth": ["OK", "NOT-OK", "OK"],
            "split": ["train", "test", "tune"],
        }
    )
    text, truth = task_of(table, tmp_path / "tasks")
    assert truth.to_dict() == {"../images/1.jpg": "NOT-OK"}
    written = pd.read_csv(io.StringIO(text), keep_default_na=False)
    assert written["label"].tolist() == ["OK", "", "OK"]
    assert written["split"].tolist() == ["train", "", "tune"]


def test_photographs_of_equal_names_are_not_taken_for_each_other(tmp_path: Path) -> None:
    photos = photographs(Like.SET1, tmp_path).iloc[::40].copy()
    files = []
    for number, file in enumerate(photos["file"]):
        place = tmp_path / f"line {number % 2}" / f"{number // 2:03}{Path(file).suffix}"
        place.parent.mkdir(exist_ok=True)
        Image.new("RGB", (40, 40), (7 * number, 0, 0)).save(place)
        files.append(str(place))
    photos["file"] = files
    Path(files[-1]).write_bytes(b"no image")
    table = experiment_table(EXPERIMENTS[0], photos, tmp_path / "made", seed=0)
    assert table is not None
    assert table["file"].str.contains("copy-").sum() > 0
    assert not table["file"].duplicated().any()


def test_own_folders_are_read_and_what_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of the folders set1, set2"):
        own_sets(tmp_path)
    for name in ("readable", "unreadable"):
        (tmp_path / "set4" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "set4" / name / "a.png")
    sets = own_sets(tmp_path)
    assert list(sets) == [Like.SET4]
    assert sets[Like.SET4]["category"].tolist() == ["complete", "unreadable"]
    (tmp_path / "set4" / "torn").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "set4" / "torn" / "a.png")
    with pytest.raises(LabelsError, match="category 'torn'"):
        own_sets(tmp_path)
    (tmp_path / "set4" / "labels.csv").write_text("file,category\n", encoding="utf-8")
    with pytest.raises(LabelsError, match="no column 'path'"):
        own_sets(tmp_path)
    wrong = {"": "cannot be read", "path,category\n": "names no photographs", "é": "in UTF-8"}
    for text, message in wrong.items():
        (tmp_path / "set4" / "labels.csv").write_bytes(text.encode("latin-1"))
        with pytest.raises(LabelsError, match=message):
            own_sets(tmp_path)


def own_table(folder: Path, text: str) -> Path:
    table = folder / "set4" / "labels.csv"
    table.parent.mkdir(exist_ok=True)
    table.write_text(text, encoding="utf-8")
    return table


def test_a_photograph_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    own_table(tmp_path, "path,category\na.png,readable\nb.png,unreadable\n./a.png,complete\n")
    photos = own_sets(tmp_path)[Like.SET4]
    assert [Path(file).name for file in photos["file"]] == ["a.png", "b.png"]
    table = own_table(tmp_path, "path,category\na.png,complete\na.png,unreadable\n")
    with pytest.raises(LabelsError, match=r"'a\.png' twice with different values of category") as e:
        own_sets(tmp_path)
    assert str(table) in str(e.value)


@pytest.mark.parametrize(
    "box", ["1,1,9,9", "1 1 9", "9 1 1 9", "1 9 9 9", "1 1 nan 9", "1 1 inf 9"]
)
def test_a_box_that_is_none_is_named(tmp_path: Path, box: str) -> None:
    rows = ["path,category,month_box", "a.png,complete,", f'b.png,complete,"{box}"']
    table = own_table(tmp_path, "\n".join(rows))
    with pytest.raises(LabelsError, match=f"row 2: the month_box '{box}'") as e:
        own_sets(tmp_path)
    assert str(table) in str(e.value)


def test_a_rendered_set_is_read_like_an_own_one(tmp_path: Path) -> None:
    write_use_by_dates(tmp_path / "set3", Settings(Like.SET3, 0, 0.01, 299), workers=1)
    table = own_sets(tmp_path)[Like.SET3]
    assert table["category"].value_counts().to_dict() == {"complete": 11, "day-missing": 1}
    assert table["difficulty"].between(0, 1).all()
