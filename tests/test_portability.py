"""What keeps the code off one operating system; `make lint` checks the names that Windows lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
POSIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
_OTHER_OWNERS = ("Image", "os", "webbrowser", "gzip", "cls")
"""Whose ``open`` opens no text file."""
READERS_AND_WRITERS = {"open", "read_text", "write_text", "fdopen", "NamedTemporaryFile"}


def source_files() -> list[Path]:
    found = sorted((ROOT / "src").rglob("*.py"))
    assert len(found) > 100
    return found


def calls_without_encoding(tree: ast.AST) -> Iterator[ast.Call]:
    """Text files whose encoding would be that of the machine."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ""
        name = function.id if isinstance(function, ast.Name) else name
        owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
        if name not in READERS_AND_WRITERS or (name == "open" and owner in _OTHER_OWNERS):
            continue
        words = [a.value for a in node.args if isinstance(a, ast.Constant)]
        is_binary = any(isinstance(word, str) and "b" in word and len(word) < 4 for word in words)
        named = {keyword.arg for keyword in node.keywords}
        if not is_binary and "encoding" not in named and (name != "open" or owner[:1].islower()):
            yield node


def test_text_files_name_their_encoding() -> None:
    missing = [
        f"{path.relative_to(ROOT)}:{call.lineno} {ast.unparse(call)[:70]}"
        for path in source_files()
        for call in calls_without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not missing, "\n".join(missing)


def test_modules_of_one_system_are_imported_only_inside_functions() -> None:
    for path in source_files():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            assert not names & POSIX_ONLY, f"{path}:{node.lineno}"
