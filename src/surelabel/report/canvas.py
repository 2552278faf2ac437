"""The style of all figures, and how they are saved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.errors import InputError
from surelabel.files.atomic import atomic_path, atomic_write_bytes

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("style.mplstyle")
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colors of the style, in its order; color-blind safe (Okabe and Ito)."""
LIGHT_BLUE, LIGHT_GRAY, GRAY, DARK_GRAY = "#DCEAF4", "#E8E8E8", "#777777", "#222222"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Lines differ in marker as well as in color."""


@contextlib.contextmanager
def canvas(width: float = 7.0, height: float = 4.2) -> Iterator[Figure]:
    """An empty figure of ``width`` x ``height`` inches in the common style; needs no display."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Figures need matplotlib: pip install 'surelabel[report]'.") from None
    with mpl.rc_context(fname=STYLE):
        yield Figure(figsize=(width, height))


def draw_boxes(
    axes: Axes, places: Sequence[int], values: Sequence[np.ndarray], width: float
) -> None:
    """A box plot at each place: quartiles and whiskers, without outliers."""
    axes.boxplot(
        values,
        positions=places,
        showfliers=False,
        widths=width,
        patch_artist=True,
        boxprops={"facecolor": LIGHT_BLUE, "edgecolor": COLORS[0]},
        whiskerprops={"color": COLORS[0]},
        capprops={"color": COLORS[0]},
        medianprops={"color": COLORS[0], "linewidth": 2},
    )


def save_figure(
    figure: Figure, stem: Path, caption: str, kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Write ``stem``.png, .svg and the caption as .txt, inside ``canvas``; returns the paths."""
    written = []
    for kind in kinds:
        path = stem.with_name(f"{stem.name}.{kind}")
        metadata = {"Description": caption, **({"Date": None} if kind == "svg" else {})}
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=metadata)
        written.append(path)
    text = stem.with_name(f"{stem.name}.txt")
    atomic_write_bytes(text, f"{caption}\n".encode())
    return [*written, text]
