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

NOUNS = ("types", "errors", "choices", "config", "option_fields")
PURE = ("uncertainty", "accept")
NO_ROUNDS = ("nets", "learn", "infer")
NO_TORCH = ("adapt", "review", "report", "export", "runs", "catalog", "figures", *PURE, *NOUNS)
PLAIN = ("__future__", "collections", "dataclasses", "enum", "functools", "itertools", "typing")
ARRAYS = ("math", "numpy", "re", "scipy")
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
    for path in sorted((SOURCE / OURS).rglob("*.py")):
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


def test_rules_are_checked_on_real_imports() -> None:
    assert "surelabel.runs.folder" in modules()
    found = {each.module: each.eager for each in imports("surelabel.runs.documents")}
    assert found["surelabel.atomic"]
    assert not found["pandas"]


def test_types_errors_and_config_stand_alone() -> None:
    """Rule 1; ``config`` may use the others, and all may use ``errors``."""
    names = ("errors", "choices", "validation", "option_fields")
    allowed = tuple(f"{OURS}.{name}" for name in names)
    refuse([each for each in in_rooms(*NOUNS) if ours(each.module) and each.module not in allowed])


@pytest.mark.parametrize("name", PURE)
def test_uncertainty_and_acceptance_are_pure(name: str) -> None:
    """Rule 2: arrays in, arrays out; acceptance knows the measures, not they it."""
    nouns = tuple(f"{OURS}.{noun}" for noun in (*NOUNS, "uncertainty"))
    allowed = (*PLAIN, *ARRAYS, *nouns, f"{OURS}.{name}")
    refuse([each for each in in_rooms(name) if not within(each.module, allowed)])
    refuse([each for each in in_rooms(name) if within(each.module, ("numpy.random",))])


def test_adaptation_is_pure_but_for_its_clustering() -> None:
    """Rule 2: arrays in, arrays out; scikit-learn clusters them."""
    nouns = tuple(f"{OURS}.{noun}" for noun in (*NOUNS, "accept", "adapt"))
    allowed = (*PLAIN, *ARRAYS, *nouns, "sklearn", "warnings")
    refuse([each for each in in_rooms("adapt") if not within(each.module, allowed)])
    assert in_rooms("adapt")


def test_nets_learning_and_inference_know_nothing_of_rounds() -> None:
    """Rule 3, downward."""
    above = tuple(f"{OURS}.{name}" for name in ("selftrain", "runs", "catalog", "engines", "cli"))
    refuse([each for each in in_rooms(*NO_ROUNDS) if within(each.module, above)])


def test_self_training_sees_learning_through_a_protocol() -> None:
    """Rule 3, upward."""
    below = tuple(f"{OURS}.{name}" for name in NO_ROUNDS)
    refuse([each for each in in_rooms("selftrain") if within(each.module, (*TORCH, *below))])


def test_reading_rooms_never_import_torch() -> None:
    """Rule 4, in any line of their own and in all that their import runs."""
    refuse([each for each in in_rooms(*NO_TORCH) if within(each.module, TORCH)])
    for module in modules():
        if room(module) in NO_TORCH:
            refuse([each for each in eager_closure(module) if within(each.module, TORCH)])


def test_the_command_line_and_the_review_page_hold_no_decisions() -> None:
    """Rule 5, as far as imports show it: they touch no arrays, tables or networks."""
    doers = (*TORCH, "numpy", "pandas", "scipy", "sklearn")
    pages = [
        *in_rooms("cli", "cli_adapt", "cli_audit", "cli_report", "data_commands"),
        *(e for e in in_rooms("review") if e.importer.endswith(".app")),
    ]
    refuse([each for each in pages if within(each.module, doers)])


def test_synthetic_photographs_need_nothing_but_arrays_and_pillow() -> None:
    """They are drawn by a library of their own, which knows nothing of learning."""
    package = f"{OURS}.datasets.use_by_dates"
    nouns = tuple(f"{OURS}.{name}" for name in (*NOUNS, "atomic", "catalog.parallel"))
    drawn = [each for name in modules() if within(name, (package,)) for each in imports(name)]
    assert drawn
    heavy = (*TORCH, "pandas", "scipy", "sklearn", "matplotlib")
    refuse([each for each in drawn if within(each.module, heavy)])
    refuse([e for e in drawn if ours(e.module) and not within(e.module, (package, *nouns))])


def test_nobody_imports_the_front_door_from_inside() -> None:
    """Rule 6; the front door of all is for users, and for rooms that stand in their place."""
    everything = [each for module in modules() for each in imports(module)]
    refuse([e for e in everything if e.module == OURS and room(e.importer) not in OUTSIDE])
    packages = [name for name, path in modules().items() if path.name == "__init__.py"]
    inside = [
        each
        for each in everything
        for package in packages
        if package != OURS and each.module == package and within(each.importer, (package,))
    ]
    refuse(inside)


def test_studies_stand_on_top() -> None:
    """Rule 7: only the command line knows of studies, and of them only their commands."""
    everything = [each for module in modules() for each in imports(module)]
    outside = [each for each in everything if room(each.importer) != "studies"]
    known = (f"{OURS}.studies.cli",) if f"{OURS}.studies.cli" in modules() else ()
    inward = [each for each in outside if within(each.module, (f"{OURS}.studies",))]
    refuse([e for e in inward if room(e.importer) != "cli" or e.module not in known])


def test_figures_know_nothing_of_what_they_show() -> None:
    """Rule 8: the style and the files of figures serve every room alike."""
    allowed = (f"{OURS}.figures", f"{OURS}.atomic", f"{OURS}.errors")
    refuse([e for e in in_rooms("figures") if ours(e.module) and not within(e.module, allowed)])


def test_reports_only_read() -> None:
    """Rule 9: nothing of a report trains, and others know its front door alone."""
    above = tuple(f"{OURS}.{name}" for name in (*NO_ROUNDS, "engines", "review", "studies", "cli"))
    mine = in_rooms("report")
    assert mine
    refuse([each for each in mine if within(each.module, above)])
    drawing = ("matplotlib", "jinja2", "markupsafe")
    refuse([each for each in mine if each.eager and within(each.module, drawing)])
    everything = [each for module in modules() for each in imports(module)]
    outside = [e for e in everything if within(e.module, (f"{OURS}.report",))]
    inner = [e for e in outside if room(e.importer) != "report" and e.module != f"{OURS}.report"]
    refuse(inner)


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    """Rule 4: help comes at once."""
    if f"{OURS}.cli" not in modules():
        pytest.skip("surelabel/cli.py does not exist yet")
    program = (
        "import sys, surelabel, surelabel.cli\n"
        "heavy = ('torch', 'pandas', 'sklearn', 'matplotlib', 'pooch')\n"
        "print([n for n in heavy if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
