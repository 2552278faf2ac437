"""Run every benchmark; each prints one JSON line. ``--scale tiny`` only shows that they work."""

from __future__ import annotations

import argparse
import json

import help_time
import mc_sampling
import mnist
import pixel_store
import review_page

BENCHMARKS = {
    "mc_sampling": mc_sampling.main,
    "help_time": help_time.main,
    "pixel_store": pixel_store.main,
    "review_page": review_page.main,
    "mnist": mnist.main,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHMARKS), help="all by default")
    parser.add_argument("--scale", choices=["tiny", "full"], default="full")
    arguments = parser.parse_args()
    for name in arguments.names:
        result = BENCHMARKS[name](tiny=arguments.scale == "tiny")
        print(json.dumps({"benchmark": name, "scale": arguments.scale, **result}), flush=True)


if __name__ == "__main__":
    main()
