"""One synthetic photograph from its number: packaging, print, faults, camera, and the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from surelabel.errors import OptionError
from surelabel.types import derive_seed
from surelabel_studies.use_by_dates import surface
from surelabel_studies.use_by_dates.camera import Pose, aim, photograph
from surelabel_studies.use_by_dates.faults import Difficulties, Fault, draw_difficulties, total
from surelabel_studies.use_by_dates.layout import Block, lay_out, put_on
from surelabel_studies.use_by_dates.light import Lit, glare, shine
from surelabel_studies.use_by_dates.locations import LOCATIONS, Location
from surelabel_studies.use_by_dates.packaging import N_PRODUCTS, Artwork, artwork
from surelabel_studies.use_by_dates.printing import Box, PrintKind
from surelabel_studies.use_by_dates.sensor import develop, expose
from surelabel_studies.use_by_dates.sets import Assignment, Category, Like, label_of, plan
from surelabel_studies.use_by_dates.textures import Array, Pixels
from surelabel_studies.use_by_dates.wording import write_date

SMALLEST, LARGEST = 299, 1196
_LEAST_SEEN = 0.08
"""Share of the contrast that a person needs to read small print, without any noise."""


@dataclass(frozen=True)
class Record:
    """The truth about one synthetic photograph; boxes are (x0, y0, x1, y1) in its pixels."""

    index: int
    label: str
    category: Category
    location: str
    product: int
    print_kind: PrintKind
    text: str
    """The date as printed, gaps included."""
    legend: str
    day: int | None
    month: int | None
    day_box: Box | None
    month_box: Box | None
    difficulties: Difficulties

    @property
    def difficulty(self) -> float:
        """All faults together; .5 is where people stop being able to read."""
        return total(self.difficulties)


def render(
    index: int, like: Like | str, seed: int = 0, size: int = SMALLEST, *, scale: float = 1.0
) -> tuple[Image.Image, Record]:
    """The synthetic photograph number ``index`` of a set, and the truth about it.

    The same arguments give the same pixels, and a larger ``size`` the same scene in more of them.
    """
    like = Like(like)
    check_size(size)
    assignments = plan(like, seed, scale)
    if not 0 <= index < len(assignments):
        raise OptionError(
            f"{like} has {len(assignments):,} images at this scale, not {index + 1:,}."
        )
    assigned = assignments[index]
    rng = np.random.default_rng(derive_seed(seed, "use-by-dates", like, index))
    weights = LOCATIONS[assigned.location].faults
    difficulties = draw_difficulties(rng, assigned.category, like, weights)
    return render_scene(rng, assigned, difficulties, like, index=index, seed=seed, size=size)


def check_size(size: int) -> None:
    """Refuse photographs in which print would be too small, or too large to draw."""
    if not SMALLEST <= size <= LARGEST:
        raise OptionError(f"The size is {size}; it can be from {SMALLEST} to {LARGEST} pixels.")


def render_scene(
    rng: np.random.Generator,
    assigned: Assignment,
    difficulties: Difficulties,
    like: Like,
    *,
    index: int = 0,
    seed: int = 0,
    size: int = SMALLEST,
) -> tuple[Image.Image, Record]:
    """A photograph with chosen faults; everything else comes from ``rng``.

    Other faults from an equal ``rng`` give the same scene with other faults.
    """
    place, unit = LOCATIONS[assigned.location], size / SMALLEST
    product = int(rng.integers(N_PRODUCTS))
    kind = place.prints[int(rng.integers(len(place.prints)))]
    art = artwork(place.name, product, seed, unit, place.language.small_print)
    text = write_date(rng, place.language, assigned.category, assigned.day, assigned.month)
    block = lay_out(rng, text, kind, place.language, art.spot, unit)
    pose = aim(rng, place.view, _whole_block(block), size, unit)
    damage, waves, lights, lens = rng.spawn(4)
    contrast = _contrast(art, block)
    faintest = float(np.clip(2.7 * place.sensor.noise / contrast, _LEAST_SEEN, 0.2))
    flat = _flat(damage, art, block, difficulties, faintest, unit)
    image = photograph(waves, flat, pose, place.view.waves * unit)
    boxes = pose.boxes_in_photo({**block.boxes, "target": block.target})
    image = _lit(lights, image, place, pose, boxes["target"], difficulties, faintest)
    caps = block.caps * pose.zoom
    image = develop(lens, image, place.sensor, difficulties, caps, contrast)
    record = Record(
        index=index,
        label=label_of(like, assigned.category),
        category=assigned.category,
        location=place.name,
        product=product,
        print_kind=kind,
        text=text.printed,
        legend=text.legend,
        day=assigned.day or None,
        month=assigned.month or None,
        day_box=boxes.get("day"),
        month_box=boxes.get("month"),
        difficulties=dict(difficulties),
    )
    return image, record


def _whole_block(block: Block) -> Box:
    x0, y0, x1, y1 = zip(*[block.target, *block.boxes.values()], strict=True)
    return (min(x0), min(y0), max(x1), max(y1))


def _contrast(art: Artwork, block: Block) -> float:
    """Difference in brightness between ink and paper, as a lit photograph shows it."""
    x0, y0, x1, y1 = (max(0, int(v)) for v in block.target)
    paper = art.pixels[y0:y1:3, x0:x1:3].mean()
    return max(40.0, 0.75 * abs(float(paper) - sum(art.ink) / 3))


def _flat(
    rng: np.random.Generator,
    art: Artwork,
    block: Block,
    difficulties: Difficulties,
    faintest: float,
    unit: float,
) -> Pixels:
    """The printed package with the faults of its surface."""
    target, caps = block.target, block.caps
    left: Array | float = 1.0
    if difficulties[Fault.FADING] > 0 and block.made is not None:
        height, width = block.made.ink.shape
        left = surface.ink_left(rng, difficulties[Fault.FADING], faintest, (height, width))
    pixels = put_on(art, block, left, unit)
    if difficulties[Fault.MOISTURE] > 0:
        surface.wet(rng, pixels, target, caps, difficulties[Fault.MOISTURE])
    if difficulties[Fault.FOLD] > 0:
        surface.fold(rng, pixels, target, caps, difficulties[Fault.FOLD])
    if difficulties[Fault.OCCLUSION] > 0:
        pixels = surface.occlude(rng, pixels, target, caps, difficulties[Fault.OCCLUSION])
    return pixels


def _lit(
    rng: np.random.Generator,
    image: Image.Image,
    place: Location,
    pose: Pose,
    target: Box,
    difficulties: Difficulties,
    faintest: float,
) -> Image.Image:
    lit = shine(rng, place.light, pose, target)
    if difficulties[Fault.GLARE] > 0:
        spot = glare(rng, target, pose.size, difficulties[Fault.GLARE], faintest)
        lit = Lit(lit.factor, np.maximum(lit.white, spot))
    return expose(image, lit, place.light)
