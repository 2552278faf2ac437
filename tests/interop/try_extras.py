"""Install the wheel with each extra, each in an environment of its own, and import what it brought.

`make test-extras` calls it. PyTorch and the other dependencies are installed once; an environment
for an extra sees them and adds only what the extra needs. Prints one line per extra.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_FOR_USERS = {"dev", "bench"}
IMPORT = """
import importlib, sys
sys.path.append(sys.argv.pop(1))
from importlib.metadata import packages_distributions
from public_packages import import_public
from surelabel.workflows.machine import inspect_machine

(found,) = [extra for extra in inspect_machine().extras if extra.name == sys.argv[1]]
assert not found.missing, f"not installed: {found.missing}"
for name, packages in sorted(packages_distributions().items()):
    if {package.lower().replace("_", "-") for package in packages} & set(sys.argv[2:]):
        try:
            importlib.import_module(name)
        except RuntimeError as error:
            if "torchvision::nms" not in str(error):
                raise
            import_public(name)
            print("torchvision is of another build than torch,")
        print(name)
"""


def extras() -> dict[str, list[str]]:
    """The packages that each extra asks for, by its name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["project"]["optional-dependencies"]
    return {name: needs for name, needs in named.items() if name not in NOT_FOR_USERS}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def install(python: Path, what: str) -> str:
    """Install; returns what pip said if it failed."""
    flags = ("-qq", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    done = run(python, "-m", "pip", "install", *flags, what)
    return done.stderr.strip() if done.returncode else ""


def make_environment(folder: Path, below: Path | None = None) -> Path:
    """A new environment, which also sees the packages of the one ``below``; its Python."""
    venv.create(folder, with_pip=True)
    if below is not None:
        (ours,) = folder.glob("lib/python*/site-packages")
        (theirs,) = below.glob("lib/python*/site-packages")
        (ours / "below.pth").write_text(f"{theirs}\n", encoding="utf-8")
    return folder / "bin" / "python"


def name_of(requirement: str) -> str:
    name = requirement
    for sign in "<>=!~[; ":
        name = name.split(sign)[0]
    return name.lower().replace("_", "-")


def try_extra(wheel: Path, name: str, folder: Path, below: Path) -> tuple[bool, str]:
    """Whether it can be imported, and what was imported or what went wrong."""
    python = make_environment(folder / name, below)
    failed = install(python, f"{wheel}[{name}]")
    if failed:
        return False, f"does not install: {failed.splitlines()[-1]}"
    wanted = [name_of(requirement) for requirement in extras()[name]]
    done = run(python, "-I", "-c", IMPORT, ROOT / "benchmarks", name, *wanted)
    if done.returncode:
        return False, f"does not import: {done.stderr.strip().splitlines()[-1]}"
    found = " ".join(done.stdout.split())
    return bool(found), found or "brings no module"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("names", nargs="*", help="only these extras")
    arguments = parser.parse_args()
    wheel, failures = arguments.wheel.resolve(), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        failed = install(make_environment(folder / "base"), str(wheel))
        if failed:
            print(f"the wheel does not install: {failed}")
            return 1
        for name in arguments.names or extras():
            began = time.monotonic()
            is_fine, text = try_extra(wheel, name, folder, folder / "base")
            failures += not is_fine
            seconds = time.monotonic() - began
            print(f"{name:12} {'ok' if is_fine else 'BAD'}  {text} ({seconds:.0f} s)", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
