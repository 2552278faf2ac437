"""Which measure ranks the errors best: AURC and AUGRC of each on the same predictions."""

from __future__ import annotations

import sys
from typing import Any

from digits import ABSENT, have_digits
from our_run import scored_rounds, some_run
from selective import curve, figures
from settings import Settings
from surelabel.config.choices import Measure


def main(settings: Settings) -> dict[str, Any]:
    if not have_digits():
        return ABSENT
    with some_run(settings) as (run, digits):
        last = scored_rounds(run, digits)[-1]
        score = str(run.config.score)
    wrong = last.guess != last.truth
    rows: dict[str, dict[str, Any]] = {}
    for name in map(str, Measure):
        values = last.table[name].to_numpy()
        row = figures(values, wrong)
        rows[name] = {**row, "curve": curve(values, last.guess, last.truth)}
    best = dict(sorted(rows.items(), key=lambda row: row[1]["aurc"]))
    _print_table(best)
    return {
        "pool": len(wrong),
        "round": last.number,
        "error": rows[score]["error"],
        "score": score,
        "measures": {
            name: {k: v for k, v in row.items() if k != "error"} for name, row in best.items()
        },
    }


def _print_table(rows: dict[str, dict[str, Any]]) -> None:
    """For people, beside the JSON line: on standard error, the best measure first."""
    left = list(next(iter(rows.values()))["curve"])
    head = " ".join(f"{f'{n} left':>12}" for n in left)
    print(f"{'measure':20} {'AURC':>10} {'AUGRC':>10} {head}", file=sys.stderr)
    for name, row in rows.items():
        points = " ".join(f"{row['curve'][n]:12.5f}" for n in left)
        print(f"{name:20} {row['aurc']:10.7f} {row['augrc']:10.7f} {points}", file=sys.stderr)
