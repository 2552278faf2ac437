"""``python -m scale``: time per image and peak memory of every stage, at several sizes.

Each stage runs in a process of its own, on what the ones before it left. Time is processor time of
one thread. Memory is anonymous memory (RssAnon): what is not a mapped file, which the system may
drop at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scale.pools import make_pool
from scale.stages import ON_FEATURES, ON_PIXELS

SIZES = (10_000, 100_000, 1_000_000)
NETS = {"pixels": "compact", "features": "efficientnet-lite0"}
MOST_TIME, MOST_MB = 1.15, 600
"""What the largest pool may take: time per image relative to the smallest, and memory beyond it."""
_PATH = os.pathsep.join(
    filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
)


def measure(name: str, place: Path, source: str, net: str, steps: int) -> dict[str, object]:
    """Run one stage in a new process; its processor seconds, peak in MB, and other facts."""
    command = [sys.executable, "-m", "scale.stages", name, str(place), source, net, str(steps)]
    environment = {**os.environ, "PYTHONPATH": _PATH, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _anonymous_kb(process.pid))
        time.sleep(0.02)
    assert process.stdout is not None
    output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"the stage {name} failed on {place}")
    return {**json.loads(output.splitlines()[-1]), "peak_mb": round(peak / 1024)}


def _anonymous_kb(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(line[1]) if line else 0


def main() -> None:
    """Measure, and print one line of JSON per stage and size, then the table."""
    parser = argparse.ArgumentParser(prog="scale", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--kinds", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--source", choices=("tar", "parquet", "npy"), default="tar")
    parser.add_argument("--steps", type=int, default=100, help="training steps of a net (100)")
    parser.add_argument("--stages", nargs="+", help="only these; what they need has to be there")
    parser.add_argument("--place", type=Path, help="keep pools and runs in this folder")
    given = parser.parse_args()
    place = given.place or Path(tempfile.mkdtemp(prefix="scale-"))
    found: dict[tuple[str, str, int], dict[str, object]] = {}
    try:
        for n in given.sizes:
            pool = place / f"{n}"
            if not pool.exists():
                make_pool(pool, n, given.source)
            for kind in given.kinds:
                stages = ON_PIXELS if kind == "pixels" else ON_FEATURES
                for name in given.stages or [stage.__name__ for stage in stages]:
                    result = measure(name, pool, given.source, NETS[kind], given.steps)
                    found[kind, name, n] = result
                    line = {"kind": kind, "stage": name, "images": n, **result}
                    print(json.dumps(line), flush=True)
    finally:
        if given.place is None:
            shutil.rmtree(place, ignore_errors=True)
    print_table(found)


def print_table(found: dict[tuple[str, str, int], dict[str, object]]) -> None:
    """Microseconds per image and MB of each stage, by size; and whether the largest holds."""
    sizes = sorted({n for _, _, n in found})
    titles = [f"{n:,}: µs per image, MB" for n in sizes]
    print(f"\n| Run on | Stage | {' | '.join(titles)} | Time per image | MB more |")
    print("|" + "---|" * (len(sizes) + 4))
    for kind, name in dict.fromkeys((kind, name) for kind, name, _ in found):
        rows = [found[kind, name, n] for n in sizes if (kind, name, n) in found]
        per_image = [1e6 * float(str(r["seconds"])) / n for r, n in zip(rows, sizes, strict=True)]
        peaks = [int(str(r["peak_mb"])) for r in rows]
        cells = [f"{t:,.1f}, {mb:,}" for t, mb in zip(per_image, peaks, strict=True)]
        ratio, more = per_image[-1] / max(per_image[0], 1e-9), peaks[-1] - peaks[0]
        over = " (over)" if ratio > MOST_TIME else ""
        above = " (over)" if more > MOST_MB else ""
        stage = name.replace("_", " ")
        print(
            f"| {kind} | {stage} | {' | '.join(cells)} | x {ratio:.2f}{over} | {more:+,}{above} |"
        )


if __name__ == "__main__":
    main()
