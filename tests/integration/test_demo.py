"""The README's first command: it passes, leaves nothing running, and looks as the README shows."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from cluster.local import processes
from tests.command_line import run

ROOT = Path(__file__).resolve().parents[2]


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("demo", "--runs", str(folder), *arguments, env=os.environ, seconds=110)


def recorded() -> str:
    """The block on the README's first screen."""
    path = ROOT / "scripts" / "readme_demo.py"
    spec = importlib.util.spec_from_file_location("readme_demo", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.block((ROOT / "README.md").read_text("utf-8")))


def shape(text: str) -> list[str]:
    """The lines with what changes from run to run taken out."""
    rules = (
        (r"runs folder.*|run folder.*again", "run folder again"),
        (r"\b(leader|LEADER|follower|pre-candidate|candidate|down)\b", "ROLE"),
        (r"\bn\d\b", "NODE"),
        (r"\d+(\.\d+)?|(?<=\s)-(?=\s|$)", "#"),
        (r"\s+", " "),
    )
    lines = []
    for line in text.strip().splitlines():
        for pattern, word in rules:
            line = re.sub(pattern, word, line)
        lines.append(line.strip())
    return lines


def left_running(cluster: Path) -> list[str]:
    """Members of a demo's cluster whose last process, by number and birth, still runs."""
    started = [path.parent for path in cluster.glob("*/process.json")]
    assert len(started) == 4, started
    return [folder.name for folder in started if processes.running(folder) is not None]


@pytest.mark.timeout(120)
def test_the_demo_passes_and_looks_like_the_readme(tmp_path: Path) -> None:
    found = demo(tmp_path, "--seed", "7")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stderr == ""
    assert "lost 0   doubled 0   reordered 0        PASS" in found.stdout
    assert shape(found.stdout) == shape(recorded())
    verdict = json.loads((tmp_path / "latest" / "verdict.json").read_text())
    assert verdict["passed"]
    assert verdict["acked"] > 1000
    assert verdict["seconds"] < 60
    assert not left_running(tmp_path / "latest" / "cluster")


@pytest.mark.timeout(120)
@pytest.mark.long
def test_the_demo_sends_a_file_of_yours(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number} ünïcode\n" for number in range(3000)))
    found = demo(tmp_path, "--input", str(lines), "-o", "json")
    assert found.returncode == 0, found.stdout + found.stderr
    verdict = json.loads(found.stdout)
    assert verdict["acked"] == verdict["sent"] == 3000
    assert verdict["lost"] == verdict["doubled"] == verdict["reordered"] == 0


def test_an_empty_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    found = demo(tmp_path / "runs", "--input", str(empty))
    assert found.returncode == 2
    assert "the file has no lines" in found.stderr
    assert not (tmp_path / "runs").exists()
