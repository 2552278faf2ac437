"""Run benchmarks; each prints one JSON line. ``--scale tiny`` only shows that they work."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import adapt_latents
import against_baal
import aurc_tail_dropout
import cached_round
import certification_mnist
import certification_simulation
import detail
import effort
import estimator
import exported_model
import feature_extraction
import feature_memory
import first_draws
import help_time
import label_errors
import mc_sampling
import mnist
import others
import outliers
import pac_labels
import photograph_cost
import photographs
import pixel_store
import promise_simulation
import readme_results
import recipes
import review_page
import selective_measures
import use_by_dates
from settings import Settings

BENCHMARKS = {
    "mc_sampling": mc_sampling.main,
    "help_time": help_time.main,
    "pixel_store": pixel_store.main,
    "baal": against_baal.main,
    "aurc_tail_dropout": aurc_tail_dropout.main,
    "use_by_dates": use_by_dates.main,
    "review_page": review_page.main,
    "mnist": mnist.main,
    "others": others.main,
    "recipes": recipes.main,
    "estimator": estimator.main,
    "exported_model": exported_model.main,
    "label_errors": label_errors.main,
    "selective_measures": selective_measures.main,
    "certification_simulation": certification_simulation.main,
    "certification_mnist": certification_mnist.main,
    "outliers": outliers.main,
    "pac_labels": pac_labels.main,
    "promise_simulation": promise_simulation.main,
    "photographs": photographs.main,
    "photograph_cost": photograph_cost.main,
    "readme_results": readme_results.main,
    "first_draws": first_draws.main,
    "effort": effort.main,
    "adapt_latents": adapt_latents.main,
    "feature_extraction": feature_extraction.main,
    "cached_round": cached_round.main,
    "feature_memory": feature_memory.main,
    "detail": detail.main,
}


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
        result = BENCHMARKS[name](settings)
        print(json.dumps({"benchmark": name, "scale": given.scale, **result}), flush=True)


if __name__ == "__main__":
    main()
