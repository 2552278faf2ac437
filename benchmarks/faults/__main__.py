"""``python -m faults``: try every fault and attack, and print one line for each.

``--scale small`` takes minutes, ``full`` as long as ``--minutes`` allows. Everything stays on this
machine: servers listen on loopback only.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from faults.trials import FULL, SMALL, apart


def main() -> int:
    """Run the trials; returns 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(SMALL)}; default all")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=180.0, help="begin no trial after this")
    options = parser.parse_args()
    trials = SMALL if options.scale == "small" else FULL
    end, failed = time.monotonic() + 60 * options.minutes, False
    print("| Fault or attack | Tried | Did not hold | Seconds | Figures |")
    print("|---|---|---|---|---|")
    for name in options.names or trials:
        if time.monotonic() > end:
            print(f"| {name} | 0 | | | not begun: the time was over |", flush=True)
            continue
        began = time.monotonic()
        outcome = apart(trials[name], options.seed)
        failed |= not outcome.holds
        cells = [outcome.name, f"{outcome.n:,}", len(outcome.failures)]
        cells += [f"{time.monotonic() - began:.0f}", outcome.figures]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        for failure in outcome.failures[:20]:
            print(f"    {failure}", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
