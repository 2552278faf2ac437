"""The six rows of the paper's MNIST table: the printed figures, and the settings of each model.

Everything that the paper did not have is off: augmentation, relabeling, human share, consistency,
weight cap, averaged weights, and the lower weight of pseudo-labels as evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from surelabel.config.choices import Measure, Net, Schedule, Weighting
from surelabel.config.settings import Config
from surelabel.errors import OptionError
from surelabel_studies.runner import PAPER_LOOP, Options

DEFAULT = "default"
"""The tool's own settings, which are no row of the paper."""
ALL = "all"
PAPER_POOL = 54_500
MAX_ROUNDS = 40
"""More than any run of the paper took; the stop rule ends a run."""

COMPACT_STEPS = 800
"""Steps per round of the compact net. It is a number of steps, not of epochs: the first round has
500 images and the last about 50,000, and two cores have to manage both."""
COMPACT_BATCH = 128


@dataclass(frozen=True)
class Figures:
    """The columns of the paper's table, each as 1 - metric like there; lower is better."""

    precision: float
    recall: float
    f1: float
    left: int
    kappa: float
    rounds: int


@dataclass(frozen=True)
class PaperRow:
    """One model of the table."""

    name: str
    title: str
    tau: str
    paper: Figures
    settings: Options = field(default_factory=dict)

    @property
    def is_weighted(self) -> bool:
        """Whether pseudo-labels are weighted by their inverse uncertainty."""
        return bool(self.settings["weights"] is Weighting.INVERSE_UNCERTAINTY)

    @property
    def is_penalized(self) -> bool:
        """Whether confident outputs are penalized."""
        return "entropy_penalty" in self.settings


_PLAIN = {"weights": Weighting.NONE}
_WEIGHTED = {"weights": Weighting.INVERSE_UNCERTAINTY}
# All rows have the same architecture: these two use dropout in training but not at test time.
_ONE_NET = {
    "members": 1,
    "mc_samples": 1,
    "noise_samples": 0,
    "score": Measure.LEAST_CONFIDENCE,
}
_ENSEMBLE = {"members": 5, "mc_samples": 1}
_BAYESIAN = {"members": 1, "mc_samples": 30}

ROWS = (
    PaperRow(
        "dst",
        "DST",
        "p > .99",
        Figures(0.0103, 0.0103, 0.0103, 781, 0.0115, 15),
        {"accept": "confidence:.99", **_PLAIN, **_ONE_NET},
    ),
    PaperRow(
        "dest",
        "DEST",
        "Q3",
        Figures(0.0044, 0.0044, 0.0044, 4391, 0.0049, 20),
        {"accept": "q3", **_WEIGHTED, **_ENSEMBLE},
    ),
    PaperRow(
        "dbst-1",
        "DBST-1",
        "Q3",
        Figures(0.0042, 0.0043, 0.0043, 5044, 0.0045, 15),
        {"accept": "q3", **_PLAIN, **_BAYESIAN},
    ),
    PaperRow(
        "dbst-2",
        "DBST-2",
        "Q3",
        Figures(0.0032, 0.0032, 0.0032, 4092, 0.0035, 21),
        {"accept": "q3", **_WEIGHTED, **_BAYESIAN},
    ),
    PaperRow(
        "dbst-3",
        "DBST-3",
        "Q2",
        Figures(0.001, 0.001, 0.001, 17828, 0.0011, 27),
        {"accept": "q2", **_WEIGHTED, **_BAYESIAN},
    ),
    PaperRow(
        "dbst-4",
        "DBST-4",
        "Q2",
        Figures(0.0071, 0.007, 0.0071, 762, 0.0079, 26),
        {"accept": "q2", **_WEIGHTED, **_BAYESIAN, "entropy_penalty": 1.0},
    ),
)

NAMES = tuple(row.name for row in ROWS)

_LOOP: Options = {
    **PAPER_LOOP,
    "schedule": Schedule.STEP,
    "learning_rate": 0.1,
}
_NETS: Mapping[Net, Options] = {
    # The paper gives no weight decay; 1e-4 is what its source of the DenseNet uses.
    # k grows by nu = 1 as in the paper, however small the pool.
    Net.DENSENET: {
        "epochs": 75,
        "batch_size": 32,
        "stop_below": 32,
        "weight_decay": 1e-4,
        "growth_nu": 1.0,
    },
    Net.COMPACT: {
        "steps": COMPACT_STEPS,
        "batch_size": COMPACT_BATCH,
        "stop_below": COMPACT_BATCH,
    },
}


def row_named(name: str) -> PaperRow:
    """The row called ``name``."""
    return next(row for row in ROWS if row.name == name)


def models_named(names: list[str]) -> tuple[str, ...]:
    """The models in the order of the table, with ``all`` spelled out; unknown names are refused."""
    wanted = {part.strip().lower() for name in names for part in name.split(",")}
    known = {*NAMES, DEFAULT, ALL}
    unknown = sorted(wanted - known)
    if unknown:
        raise OptionError(
            f"model is '{unknown[0]}'; it can be {', '.join(NAMES)}, {ALL} (these six) or "
            f"{DEFAULT} (the tool's own settings)."
        )
    if ALL in wanted:
        wanted |= set(NAMES)
    return tuple(name for name in (*NAMES, DEFAULT) if name in wanted)


def config_of(
    model: str, net: Net, *, seed: int, epochs: int | None = None, rounds: int | None = None
) -> Config:
    """The settings of a model; ``epochs`` and ``rounds`` scale a run down."""
    if net not in _NETS:
        raise OptionError(f"net is {net}; in this study it can be {', '.join(_NETS)}.")
    chosen: dict[str, object] = {"seed": seed, "net": str(net), "accept": "tukey"}
    if model != DEFAULT:
        chosen |= {"max_rounds": MAX_ROUNDS, **_LOOP, **_NETS[net], **row_named(model).settings}
    if epochs is not None:
        chosen |= {"epochs": epochs, "steps": 0}
    if rounds is not None:
        chosen["max_rounds"] = rounds
    return Config.from_mapping(chosen)
