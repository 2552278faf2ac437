"""The report page: one HTML file that embeds everything, runs no script and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from datetime import UTC, datetime
from pathlib import Path

from surelabel.errors import InputError, RunError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.report.adaptation_plots import centroids_plot, curve_plots
from surelabel.report.facts import Facts, read_facts
from surelabel.report.gallery import galleries, no_suspicious
from surelabel.report.held_out_plots import confusion_plot, coverage_plot, reliability_plot
from surelabel.report.plots import DrawnPlot, Plot, draw_plot
from surelabel.report.pool_plots import classes_plot, forecast_plot
from surelabel.report.round_plots import accuracy_plot, dropout_plot, left_plot, uncertainty_plot
from surelabel.report.text import page_values
from surelabel.runs.folder import FIGURES, REPORT, RunFolder

_PACKAGES = ("jinja2", "matplotlib")
_TEMPLATES = Path(__file__).with_name("templates")


def missing_packages() -> list[str]:
    """The packages that a report needs but that are not installed."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def write_report(folder: RunFolder) -> Path:
    """Write the page and its figures into the run folder; returns the path of the page."""
    missing = missing_packages()
    if missing:
        raise InputError(
            f"A report needs {', '.join(missing)}: install with pip install 'surelabel[report]'."
        )
    if folder.last_round() is None:
        raise RunError(
            f"{folder.path} has no finished round yet: call surelabel resume {folder.path}."
        )
    facts = read_facts(folder)
    figures = folder.path / FIGURES
    drawn = {plot.name: draw_plot(plot, figures) for plot in _plots(facts)}
    for old in [*figures.glob("*.svg"), *figures.glob("*.txt")]:
        if old.stem not in drawn:
            old.unlink(missing_ok=True)
    page = folder.path / REPORT
    atomic_write_bytes(page, _render(facts, drawn).encode("utf-8", errors="replace"))
    return page


def report_at_end(folder: RunFolder) -> str:
    """Write the report of a run that has ended; returns why there is none, or an empty text.

    A run never fails because of its report; ``RunError`` if the run itself is gone.
    """
    missing = missing_packages()
    if missing:
        return (
            f"A report with figures needs {' and '.join(missing)}: pip install "
            f"'surelabel[report]', then surelabel report {folder.path}."
        )
    try:
        write_report(folder)
    except Exception as error:
        folder.check_there()
        return f"The report could not be written ({error}); this does not affect the labels."
    return ""


def _plots(facts: Facts) -> list[Plot]:
    plots: list[Plot | None] = [left_plot(facts), accuracy_plot(facts), uncertainty_plot(facts)]
    if facts.last is not None:
        plots.append(coverage_plot(facts, facts.last))
        plots.append(reliability_plot(facts, facts.last))
        plots.append(confusion_plot(facts, facts.last))
    plots += [*curve_plots(facts), centroids_plot(facts)]
    plots += [classes_plot(facts), dropout_plot(facts), forecast_plot(facts)]
    return [plot for plot in plots if plot is not None]


def _render(facts: Facts, figures: dict[str, DrawnPlot]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    values: dict[str, object] = {
        **page_values(facts),
        "figures": figures,
        "galleries": galleries(facts),
        "no_suspicious": no_suspicious(facts),
        "style": Markup(style),
        "style_digest": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return environment.get_template("report.html").render(values)
