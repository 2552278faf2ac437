"""Who may know whom: the rules of ``docs/architecture.md``, kept by reading every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
OURS = "surelabel"

NOUNS = ("types", "errors", "config")
PURE = ("selection", "guarantees")
NO_ROUNDS = ("models", "training", "inference")
PRESENTATION = ("cli", "review", "report")
NO_TORCH = (
    "dataset",
    "runs",
    "review",
    "report",
    "export",
    "cli",
    "messages",
    "files",
    *PURE,
    *NOUNS,
)
PLAIN = ("__future__", "collections", "dataclasses", "enum", "functools", "itertools", "typing")
ARRAYS = ("heapq", "math", "numpy", "re", "scipy")
TORCH = ("torch", "torchvision", "timm", "safetensors.torch")
STUDIES = "surelabel_studies"
PLAIN = ("__future__", "collections", "dataclasses", "enum", "functools", "itertools", "typing")
ARRAYS = ("heapq", "math", "numpy", "re", "scipy")
OUTSIDE = ("cli", "__main__", "sklearn", "studies")
TORCH = ("torch", "torchvision", "timm", "safetensors.torch")


@dataclass(frozen=True)
class Import:
    """``module`` imported in line ``line`` of ``importer``; ``eager`` if importing it runs it."""

    importer: str
    module: str
    line: int
    eager: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}"


@cache
def modules() -> dict[str, Path]:
    """Every module of ours by dotted name; packages by the name of the folder."""
    found = {}
    paths = [path for name in (OURS, STUDIES) for path in sorted((SOURCE / name).rglob("*.py"))]
    for path in paths:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> tuple[Import, ...]:
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    return tuple(_walk(module, tree, eager=True))


def _walk(module: str, node: ast.AST, eager: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            for name in _names(module, child):
                yield Import(module, name, child.lineno, eager)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from _walk(module, ast.Module(child.orelse, []), eager)
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(module, child, eager and not is_function)


def _names(module: str, node: ast.Import | ast.ImportFrom) -> list[str]:
    """What is imported; ``from package import module`` counts as the module where it is one."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        path = modules()[module]
        depth = node.level - (path.name == "__init__.py")
        above = module.split(".")[: len(module.split(".")) - depth]
        base = ".".join([*above, *([node.module] if node.module else [])])
    full = [f"{base}.{alias.name}" for alias in node.names]
    return [name if name in modules() else base for name in full]


def room(module: str) -> str:
    """The package or file directly below ours: ``surelabel.runs.folder`` is in ``runs``."""
    if within(module, (STUDIES,)):
        return STUDIES
    return module.split(".")[1] if "." in module else ""


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def in_rooms(*rooms: str) -> list[Import]:
    """Every import in ``rooms``; rooms that are not built yet have none."""
    return [each for module in modules() if room(module) in rooms for each in imports(module)]


def ours(module: str) -> bool:
    return within(module, (OURS,))


def refuse(broken: list[Import]) -> None:
    assert not broken, "\n".join(map(str, broken))


def eager_closure(module: str) -> Iterator[Import]:
    """Every import that runs when ``module`` is imported, through modules of ours."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        parents = [current.rsplit(".", n)[0] for n in range(current.count(".") + 1)]
        for each in parents:
            if each in modules() and each not in seen:
                seen.add(each)
                for found in imports(each):
                    if found.eager:
                        waiting.append(found.module)
                        yield found


def every_import() -> list[Import]:
    return [each for module in modules() for each in imports(module)]


def rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"{OURS}.{name}" for name in names)


def test_rules_are_checked_on_real_imports() -> None:
    assert "surelabel.runs.folder" in modules()
    found = {each.module: each.eager for each in imports("surelabel.files.large_tables")}
    assert found["surelabel.files.mapped_arrays"]
    assert not found["pandas"]


def test_the_top_level_holds_the_api_the_nouns_and_packages() -> None:
    files = {path.stem for path in (SOURCE / OURS).glob("*.py")}
    assert files == {"__init__", "__main__", "api", "sklearn", "types", "errors"}


def test_packages_have_no_front_door_of_their_own() -> None:
    """An import names the module where a thing lives; only ``surelabel`` lists names for users."""
    packages = [name for name, path in modules().items() if path.name == "__init__.py"]
    refuse([each for name in packages if name != OURS for each in imports(name)])
    inside = [each for each in every_import() if room(each.importer) not in ("", STUDIES)]
    refuse([each for each in inside if each.module == OURS])


def test_types_errors_and_config_stand_alone() -> None:
    """Rule 1; ``config`` may use ``errors``."""
    allowed = (f"{OURS}.errors", f"{OURS}.config")
    broken = [e for e in in_rooms(*NOUNS) if ours(e.module) and not within(e.module, allowed)]
    refuse(broken)


@pytest.mark.parametrize("name", PURE)
def test_selection_and_guarantees_are_pure(name: str) -> None:
    """Rule 1: arrays in, arrays out; no torch, no files, no clock, no chance."""
    allowed = (*PLAIN, *ARRAYS, *rooms(*NOUNS, "inference.measures", name))
    mine = in_rooms(name)
    assert mine
    refuse([each for each in mine if not within(each.module, allowed)])
    refuse([each for each in mine if within(each.module, ("numpy.random",))])


def test_adaptive_clustering_is_pure_but_for_its_clustering() -> None:
    """Rule 1: arrays in, arrays out; scikit-learn clusters them."""
    names = rooms("adaptation.clustering", "adaptation.comparison", "adaptation.domain_gap")
    allowed = (*PLAIN, *ARRAYS, *rooms(*NOUNS, "selection", "guarantees"), *names)
    mine = [each for name in names for each in imports(name)]
    assert mine
    refuse([each for each in mine if not within(each.module, (*allowed, "sklearn", "warnings"))])


def test_models_training_and_inference_know_nothing_of_rounds() -> None:
    """Rule 2, downward."""
    above = rooms("selftraining", "runs", "dataset", "engines", "workflows", *PRESENTATION)
    refuse([each for each in in_rooms(*NO_ROUNDS) if within(each.module, above)])


def test_self_training_sees_learning_through_a_protocol() -> None:
    """Rule 2, upward; the measures of uncertainty are functions on arrays."""
    below = rooms("models", "training", "inference.sampling", "engines", "runs")
    refuse([each for each in in_rooms("selftraining") if within(each.module, (*TORCH, *below))])
    for module in ("selection", "guarantees", "inference.measures", "inference.selective_risk"):
        names = [name for name in modules() if within(name, rooms(module))]
        found = [each for name in names for each in eager_closure(name)]
        refuse([each for each in found if within(each.module, TORCH)])


def test_reading_rooms_never_import_torch() -> None:
    """Rule 3, in any line of their own and in all that their import runs."""
    refuse([each for each in in_rooms(*NO_TORCH) if within(each.module, TORCH)])
    for module in modules():
        if room(module) in NO_TORCH:
            refuse([each for each in eager_closure(module) if within(each.module, TORCH)])


def test_commands_and_routes_hold_no_decisions() -> None:
    """Rule 4, as far as imports show it: they touch no arrays, tables or networks."""
    doers = (*TORCH, "numpy", "pandas", "scipy", "sklearn")
    pages = [*in_rooms("cli"), *imports(f"{OURS}.review.app"), *imports(f"{STUDIES}.cli")]
    refuse([each for each in pages if within(each.module, doers)])


def test_nobody_but_presentation_imports_presentation() -> None:
    """Rule 4: what computes does not know how it is shown; the API opens the report's door."""
    shown = [each for each in every_import() if within(each.module, rooms(*PRESENTATION))]
    above = (*PRESENTATION, "__main__", "api", STUDIES)
    refuse([each for each in shown if room(each.importer) not in above])


def test_integrations_stand_beside_the_api() -> None:
    """Whole tasks, learning and files know nothing of other tools that surelabel works with."""
    known = [each for each in every_import() if within(each.module, rooms("integrations"))]
    assert known
    above = ("integrations", "api", "sklearn", "cli", STUDIES)
    refuse([each for each in known if room(each.importer) not in above])


def test_studies_stand_on_top() -> None:
    """Nothing of the library knows the studies; the command line finds their commands."""
    known = [each for each in every_import() if within(each.module, (STUDIES,))]
    assert known
    refuse([each for each in known if room(each.importer) != STUDIES])


def test_synthetic_photographs_need_nothing_but_arrays_and_pillow() -> None:
    """They are drawn by a library of their own, which knows nothing of learning."""
    package = f"{STUDIES}.use_by_dates"
    drawn = [each for name in modules() if within(name, (package,)) for each in imports(name)]
    assert drawn
    heavy = (*TORCH, "pandas", "scipy", "sklearn", "matplotlib")
    refuse([each for each in drawn if within(each.module, heavy)])
    allowed = (package, *rooms(*NOUNS, "files", "dataset.parallel"))
    refuse([e for e in drawn if ours(e.module) and not within(e.module, allowed)])


def test_reports_only_read() -> None:
    """Nothing of a report trains, and importing it needs neither matplotlib nor Jinja2."""
    above = (*rooms(*NO_ROUNDS, "engines", "review", "cli"), STUDIES)
    measures = rooms("inference.measures", "inference.selective_risk")
    mine = in_rooms("report")
    assert mine
    refuse([e for e in mine if within(e.module, above) and not within(e.module, measures)])
    drawing = ("matplotlib", "jinja2", "markupsafe")
    refuse([each for each in mine if each.eager and within(each.module, drawing)])


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    """Rule 3: help comes at once."""
    program = (
        "import sys, surelabel\n"
        "from surelabel.cli.main import build_app\n"
        "build_app()\n"
        "heavy = ('torch', 'pandas', 'sklearn', 'matplotlib', 'pooch')\n"
        "print([n for n in heavy if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
