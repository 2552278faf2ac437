from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from surelabel.errors import OptionError
from surelabel_studies.use_by_dates.faults import BOUNDARY, Fault, draw_difficulties, total
from surelabel_studies.use_by_dates.locations import LOCATIONS
from surelabel_studies.use_by_dates.scene import Record, render, render_scene
from surelabel_studies.use_by_dates.sets import Assignment, Category, Like, plan
from surelabel_studies.use_by_dates.textures import Array

NONE = dict.fromkeys(Fault, 0.0)


def scene(
    location: str, number: int, faults: dict[Fault, float] | None = None, size: int = 299
) -> tuple[Image.Image, Record]:
    """A complete date, with these faults and no others."""
    return render_scene(
        np.random.default_rng(number),
        Assignment(Category.COMPLETE, location, 1 + number % 28, 1 + number % 12),
        {**NONE, **(faults or {})},
        Like.SET1,
        size=size,
    )


def date_of(image: Image.Image, record: Record) -> Array:
    """Brightness around day and month."""
    assert record.day_box is not None
    assert record.month_box is not None
    boxes = np.array([record.day_box, record.month_box])
    (x0, y0), (x1, y1) = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    return np.asarray(image.convert("L").crop((int(x0), int(y0), int(x1) + 1, int(y1) + 1)), float)


def likeness(one: Array, other: Array) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def test_the_same_arguments_give_the_same_pixels_and_others_do_not() -> None:
    image, record = render(5, "set1", seed=1)
    again, same = render(5, Like.SET1, seed=1)
    assert image.size == (299, 299)
    assert image.mode == "RGB"
    assert image.tobytes() == again.tobytes()
    assert record == same
    assert render(5, "set1", seed=2)[0].tobytes() != image.tobytes()
    assert render(6, "set1", seed=1)[0].tobytes() != image.tobytes()
    assert render(5, "set4", seed=1)[0].tobytes() != image.tobytes()


def test_an_image_does_not_depend_on_what_was_rendered_before() -> None:
    first = render(8, "set1", seed=3)[0].tobytes()
    for other in (40, 2, 17):
        render(other, "set1", seed=3)
    assert render(8, "set1", seed=3)[0].tobytes() == first


def test_a_larger_size_shows_the_same_scene() -> None:
    small, record = scene("butcher", 4)
    large, larger = scene("butcher", 4, size=598)
    assert large.size == (598, 598)
    assert record.text == larger.text
    assert record.day_box is not None
    assert larger.day_box == pytest.approx([2 * side for side in record.day_box], abs=6)
    shrunk = np.asarray(large.resize((299, 299), Image.Resampling.BOX).convert("L"), float)
    assert likeness(np.asarray(small.convert("L"), float), shrunk) > 0.9


@pytest.mark.parametrize("like", Like)
def test_records_say_what_the_plan_says_and_difficulty_parts_the_unreadable(like: Like) -> None:
    for index, assigned in enumerate(plan(like, 0, 0.01)[:6]):
        _, record = render(index, like, scale=0.01)
        assert record.category is assigned.category
        assert (record.day or 0, record.month or 0) == (assigned.day, assigned.month)
        assert (record.day_box is None) == (record.day is None)
        assert (record.month_box is None) == (record.month is None)
        assert (record.difficulty >= BOUNDARY) == (record.category is Category.UNREADABLE)
        if record.day:
            assert f"{record.day:02d}" in record.text


def test_the_date_is_in_the_photograph() -> None:
    for number, location in enumerate(LOCATIONS):
        _, record = scene(location, number)
        for box in (record.day_box, record.month_box):
            assert box is not None
            assert min(box) > 0
            assert max(box) < 299


def test_difficulties_come_close_to_the_boundary_from_both_sides() -> None:
    rng = np.random.default_rng(0)
    for category, low, high in (
        (Category.COMPLETE, 0.0, BOUNDARY),
        (Category.UNREADABLE, BOUNDARY, 1.0),
    ):
        drawn = [draw_difficulties(rng, category, Like.SET1, {}) for _ in range(800)]
        totals = np.array([total(each) for each in drawn])
        assert (totals >= low).all()
        assert (totals < high).all() if category is Category.COMPLETE else (totals <= high).all()
        assert 0.02 < (abs(totals - BOUNDARY) < 0.1).mean() < 0.2
        assert all(any(each[fault] > 0 for each in drawn) for fault in Fault)


@pytest.mark.parametrize("fault", Fault)
def test_the_harder_the_fault_the_less_is_left_of_the_date(fault: Fault) -> None:
    kept = []
    for difficulty in (0.1, 0.5, 1.0):
        alike = []
        for number, location in enumerate(("bakery", "butcher", "drinks", "frozen")):
            clean = date_of(*scene(location, number))
            alike.append(likeness(clean, date_of(*scene(location, number, {fault: difficulty}))))
        kept.append(np.mean(alike))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] - kept[-1] > 0.15
    assert kept[-1] < 0.6


@pytest.mark.parametrize("fault", [Fault.BLUR, Fault.MOTION, Fault.FADING])
def test_soft_faults_take_the_edges_away(fault: Fault) -> None:
    edges = []
    for difficulty in (0.0, 0.25, 0.5, 1.0):
        clear = date_of(*scene("butcher", 3, {fault: difficulty}))
        edges.append(float(np.abs(np.diff(clear, axis=1)).mean()))
    assert edges == sorted(edges, reverse=True)
    assert edges[-1] < edges[0] / 2


def test_low_light_is_dark_and_glare_is_bright() -> None:
    plain = date_of(*scene("meals", 2)).mean()
    assert date_of(*scene("meals", 2, {Fault.LOW_LIGHT: 0.6})).mean() < plain / 1.5
    assert date_of(*scene("meals", 2, {Fault.GLARE: 0.6})).mean() > plain + 60


def test_locations_look_different() -> None:
    colors = {
        name: np.array([np.asarray(scene(name, n)[0], float).mean(axis=(0, 1)) for n in range(3)])
        for name in LOCATIONS
    }
    between = np.std([each.mean(axis=0) for each in colors.values()], axis=0).mean()
    assert between > 15
    gray = np.asarray(scene("dairy", 1)[0], float)
    assert abs(gray - gray.mean(axis=2, keepdims=True)).mean() < 5


def test_bad_input_gets_a_sentence() -> None:
    with pytest.raises(OptionError, match="from 299 to"):
        render(0, "set1", size=64)
    with pytest.raises(OptionError, match="1,404 images"):
        render(1404, "set1")
