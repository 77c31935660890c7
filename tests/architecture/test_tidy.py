"""Small habits, checked everywhere at once. An exception is a line in exceptions.toml."""

from __future__ import annotations

import ast
import functools
import re
import subprocess

import pytest

from .source_tree import PACKAGES, ROOT, Source, dotted, exceptions, sources

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
#: A page that nobody reads to its end is a table of results.
PAGE_BYTES_MAX = 80_000


def test_each_module_says_what_it_is() -> None:
    assert not [s.path for s in sources() if not ast.get_docstring(s.tree)]


def test_each_package_has_a_readme() -> None:
    folders = {ROOT / package for package in PACKAGES} | {
        (ROOT / s.path).parent for s in sources() if not s.path.endswith("__init__.py")
    }
    # A folder of one idea may be described in the folder above it, by name.
    missing = [
        str(folder.relative_to(ROOT))
        for folder in folders
        if not (folder / "README.md").exists()
        and f"{folder.name}/" not in (folder.parent / "README.md").read_text(encoding="utf-8")
    ]
    assert not missing, missing


def has_reason(source: Source, line: int) -> bool:
    """A comment stands on the line, the one above it or the one below it."""
    return any("#" in text for text in source.lines[max(0, line - 2) : line + 1])


def test_endless_loops_have_a_reason() -> None:
    wrong = [
        f"{s.path}:{node.lineno}"
        for s in sources()
        for node in s.nodes
        if isinstance(node, ast.While)
        and isinstance(node.test, ast.Constant)
        and not has_reason(s, node.lineno)
    ]
    assert not wrong, f"a comment beside `while True` must say what ends or bounds it: {wrong}"


def test_addresses_are_taken_apart_in_one_place() -> None:
    """commitlog/address.py, which knows the brackets of IPv6."""
    pattern = re.compile(r"""r(partition|split)\(["']:["']|strip\(["']\[\]["']\)""")
    found = {s.path for s in sources() if pattern.search(s.text)}
    assert found == exceptions()["addresses"].keys()


def test_queues_are_bounded() -> None:
    wrong = [
        f"{s.path}:{node.lineno}"
        for s in sources()
        for node in s.nodes
        if isinstance(node, ast.Call)
        and re.fullmatch(r"(asyncio|queue)\.\w*Queue", dotted(node.func))
        and not node.args
        and not any(keyword.arg == "maxsize" for keyword in node.keywords)
    ]
    assert not wrong, wrong


def test_no_leftovers_and_no_places_of_one_machine() -> None:
    # Written in pieces, or this file would find itself.
    words = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    folders = "|".join(("wo" + "rk", "ho" + "me", "ro" + "ot"))
    pattern = re.compile(rf"\b({words})\b|(?<![\w.$}}-])/({folders})/")
    files = [path for name in (*PACKAGES, "tests", "scripts", "conf") for path in text_files(name)]
    wrong = [
        f"{path}:{number}: {line.strip()[:80]}"
        for path, text in files
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def text_files(folder: str) -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file()
        and path.suffix in {".py", ".md", ".toml", ".sh", ""}
        and "data" not in path.parts
        and "__pycache__" not in path.parts
    ]


@functools.cache
def sizes() -> dict[str, int]:
    """Files and functions over the guide, with their lines."""
    found = {}
    for s in sources():
        if len(s.lines) > FILE_LINES_MAX:
            found[s.path] = len(s.lines)
        for node in s.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    found[f"{s.path}::{node.name}"] = lines
    return found


def test_sizes_only_shrink() -> None:
    """What is over the guide is written down with its size and reason, and may not grow."""
    waived = exceptions().get("sizes", {})
    grown = {
        name: lines
        for name, lines in sizes().items()
        if lines > waived.get(name, {}).get("lines", 0)
    }
    assert not grown, (
        f"split it where it holds two ideas, or say why not in exceptions.toml: {grown}"
    )
    done = {name for name in waived if name not in sizes()}
    assert not done, f"no longer over the guide, take it out of exceptions.toml: {done}"
    assert all(entry["reason"] for entry in waived.values())


@pytest.mark.parametrize("package", PACKAGES)
def test_median_module_is_small(package: str) -> None:
    lines = sorted(len(s.lines) for s in sources() if s.path.startswith(f"{package}/"))
    assert lines[len(lines) // 2] <= 200, "modules of this package grow too large; see the style"


def test_evidence_of_long_runs_is_not_among_the_sources() -> None:
    """It goes to the evidence folder (tools/evidence.py); its last figures to docs/evidence.md."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    rows = [p for p in tracked if p.endswith(".jsonl") and not p.startswith("tests/")]
    large = [
        p
        for p in tracked
        if p.endswith((".md", ".json", ".html"))
        and (ROOT / p).is_file()
        and (ROOT / p).stat().st_size > PAGE_BYTES_MAX
    ]
    assert not rows, rows
    assert not large, f"more than {PAGE_BYTES_MAX} bytes: {large}"
