"""Run benchmarks; each prints one JSON line. ``--scale tiny`` only shows that they work."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from settings import Settings

BENCHMARKS = (
    "mc_sampling",
    "help_time",
    "pixel_store",
    "against_baal",
    "aurc_tail_dropout",
    "use_by_dates",
    "review_page",
    "mnist",
    "others",
    "recipes",
    "estimator",
    "exported_model",
    "label_errors",
    "selective_measures",
    "certification_simulation",
    "certification_mnist",
    "outliers",
    "pac_labels",
    "promise_simulation",
    "photographs",
    "photograph_cost",
    "readme_results",
    "first_draws",
    "effort",
    "adapt_latents",
    "feature_extraction",
    "cached_round",
    "feature_memory",
    "detail",
    "net_choice",
)
"""The modules in this folder, by name. Each is imported when it is its turn: some take long."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"all by default: {', '.join(BENCHMARKS)}")
    parser.add_argument("--scale", choices=["tiny", "full"], default="full")
    parser.add_argument("--seed", type=int, default=100, help="draws labels and weights (100)")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, from --seed up (3)")
    parser.add_argument("--labels", type=int, default=50, help="labels per class (50)")
    parser.add_argument("--images", type=int, default=0, help="images in the pool or to predict")
    parser.add_argument("--steps", type=int, default=0, help="training steps of a net")
    parser.add_argument("--effort", choices=["low", "normal", "high"], default="normal")
    parser.add_argument("--run", type=Path, help="a finished run on these images to read")
    parser.add_argument("--out", type=Path, help="keep the run that is made in this new folder")
    given = parser.parse_args()
    for name in set(given.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark '{name}': choose from {', '.join(BENCHMARKS)}")
    settings = Settings(
        tiny=given.scale == "tiny",
        seed=given.seed,
        n_seeds=given.seeds,
        labels=given.labels,
        images=given.images,
        steps=given.steps,
        effort=given.effort,
        run=given.run,
        out=given.out,
    )
    for name in given.names or BENCHMARKS:
        result = import_module(name).main(settings)
        print(json.dumps({"benchmark": name, "scale": given.scale, **result}), flush=True)


if __name__ == "__main__":
    main()
