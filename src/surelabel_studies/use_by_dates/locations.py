"""Seven places where packaging is photographed: language, coder, camera, light and angle."""

from __future__ import annotations

from dataclasses import dataclass, field

from surelabel_studies.use_by_dates import wording
from surelabel_studies.use_by_dates.faults import Fault
from surelabel_studies.use_by_dates.printing import PrintKind
from surelabel_studies.use_by_dates.wording import Language


@dataclass(frozen=True)
class View:
    """How the camera is held."""

    zoom: tuple[float, float]
    turn: float
    """Deviation of the rotation, degrees."""
    tilt: tuple[float, float]
    """Deviation of the perspective across and down."""
    lean: float = 0.0
    """Perspective that the location always has, down."""
    curved: float = 0.0
    """Share of packages that are cylinders."""
    waves: float = 0.0
    """How much the surface undulates, in pixels of a photograph 299 wide."""


@dataclass(frozen=True)
class Light:
    """How the place is lit."""

    cast: tuple[float, float, float]
    """What the light and the white balance make of gray."""
    slope: float
    """Unevenness across the photograph."""
    gloss: float
    """How much the surface reflects."""
    wrinkles: float
    """Shading by small folds."""
    vignette: float = 0.15


@dataclass(frozen=True)
class Sensor:
    """What the camera makes of the light."""

    noise: float
    blur: float
    contrast: float
    saturation: float = 1.0
    quality: int = 90


@dataclass(frozen=True)
class Location:
    """One place."""

    name: str
    language: Language
    prints: tuple[PrintKind, ...]
    view: View
    light: Light
    sensor: Sensor
    faults: dict[Fault, float] = field(default_factory=dict)
    """Relative frequency of each fault here; 1 if it is not listed."""


_INKJET, _DOTS, _THERMAL, _LASER = PrintKind

_ALL = (
    Location(
        "bakery",
        wording.ENGLISH,
        (_INKJET, _INKJET, _THERMAL),
        View((0.85, 1.15), 7, (0.10, 0.10), waves=2.5),
        Light((1.06, 0.99, 0.86), 0.30, 0.25, 0.10),
        Sensor(3.0, 0.6, 1.05, 1.05),
        {Fault.FOLD: 3.0, Fault.MOISTURE: 0.3},
    ),
    Location(
        "dairy",
        wording.GERMAN,
        (_INKJET, _INKJET, _DOTS),
        View((0.95, 1.15), 2.5, (0.02, 0.02)),
        Light((1.0, 1.0, 1.0), 0.22, 0.35, 0.03, 0.22),
        Sensor(4.5, 0.45, 1.15, 0.0, 92),
        {Fault.MOTION: 3.0, Fault.MOISTURE: 2.0, Fault.FOLD: 0.4},
    ),
    Location(
        "butcher",
        wording.FRENCH,
        (_THERMAL,),
        View((0.8, 1.05), 9, (0.12, 0.12), waves=1.2),
        Light((1.07, 0.97, 0.95), 0.25, 0.9, 0.08),
        Sensor(3.0, 0.55, 1.1, 1.15),
        {Fault.GLARE: 3.5, Fault.OCCLUSION: 1.5},
    ),
    Location(
        "produce",
        wording.DUTCH,
        (_INKJET, _THERMAL, _DOTS),
        View((0.8, 1.1), 12, (0.14, 0.12), waves=4.5),
        Light((0.98, 1.03, 0.97), 0.25, 0.8, 0.22),
        Sensor(3.5, 0.6, 1.0, 1.1),
        {Fault.GLARE: 2.0, Fault.MOISTURE: 2.5, Fault.FOLD: 2.0},
    ),
    Location(
        "drinks",
        wording.SPANISH,
        (_INKJET, _LASER, _INKJET),
        View((0.85, 1.1), 5, (0.06, 0.08), curved=1.0),
        Light((0.97, 1.0, 1.05), 0.2, 0.7, 0.03),
        Sensor(3.0, 0.5, 1.1, 1.1),
        {Fault.GLARE: 2.0, Fault.FADING: 2.0, Fault.MOISTURE: 1.5, Fault.FOLD: 0.3},
    ),
    Location(
        "frozen",
        wording.ITALIAN,
        (_DOTS, _DOTS, _INKJET),
        View((0.8, 1.05), 6, (0.10, 0.16)),
        Light((0.90, 0.99, 1.10), 0.4, 0.3, 0.04, 0.3),
        Sensor(6.5, 0.75, 0.95, 0.9, 86),
        {Fault.MOISTURE: 3.0, Fault.LOW_LIGHT: 3.0, Fault.BLUR: 1.5},
    ),
    Location(
        "meals",
        wording.POLISH,
        (_LASER, _LASER, _INKJET),
        View((0.85, 1.1), 8, (0.12, 0.08), lean=0.22),
        Light((1.10, 1.0, 0.80), 0.4, 0.3, 0.03, 0.28),
        Sensor(4.5, 0.65, 1.05, 1.0, 88),
        {Fault.LOW_LIGHT: 2.0, Fault.BLUR: 2.0, Fault.MOISTURE: 0.4},
    ),
)

LOCATIONS: dict[str, Location] = {location.name: location for location in _ALL}
