"""Run `scripts/test` several times in a row, beside a load or quiet, and keep the counts.

    scripts/repeated COUNT [--quiet]

    load    four processes that compute and one that writes and syncs 64 MiB again and again,
            from the begin of the first run to the end of the last; none with --quiet
    rows    a line a run: commit, date, load or quiet, minutes, counts, names of flaky tests; in
            repeated-runs.jsonl of the folder for evidence (chaos/tools/evidence.py)

A run that is ended from outside leaves no row, so COUNT runs may be spread over several calls. The
table of all rows, newest last, is printed at the end. Exit code 0: no test failed in the runs of
this call, and at most two were flaky in all of them; 1 else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from chaos.tools.evidence import evidence_file

ROOT = Path(__file__).resolve().parent.parent
FILE = "repeated-runs.jsonl"
LOOPS = 4
FLAKY_MAX = 2
LOOP = "while True: pass"
WRITER = """
import os, sys
block = os.urandom(1 << 20)
with open(sys.argv[1], "wb", buffering=0) as file:
    while True:
        file.seek(0)
        for _ in range(64):
            file.write(block)
        os.fsync(file.fileno())
"""
_COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
_FLAKY = re.compile(r"^== flaky (\S+): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One whole run; `load`: the words of the table's column."""

    commit: str
    date: str
    load: str
    minutes: float
    passed: int
    failed: int
    skipped: int
    flaky: list[str]


def row_of(said: str, commit: str, load: str, seconds: float) -> Row:
    """What a run printed, as a row. Raises ValueError when it ended without its last line."""
    counts = _COUNTS.findall(said)
    if not counts:
        raise ValueError(f"the run printed no counts; its last words: {said[-500:]!r}")
    passed, failed, skipped = map(int, counts[-1])
    date, minutes = time.strftime("%Y-%m-%d %H:%M"), round(seconds / 60, 1)
    return Row(commit, date, load, minutes, passed, failed, skipped, _FLAKY.findall(said))


@contextlib.contextmanager
def load(folder: Path) -> Iterator[None]:
    """Four busy loops and a writer, ended behind the block whatever comes."""
    commands = [[sys.executable, "-c", LOOP] for _ in range(LOOPS)]
    commands.append([sys.executable, "-c", WRITER, str(folder / "written")])
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command))
        yield
        if ended := [one.args for one in running if one.poll() is not None]:
            raise RuntimeError(f"a part of the load ended by itself: {ended}; run again")
    finally:
        for one in running:
            one.kill()
            one.wait()


def table(rows: list[Row]) -> str:
    """All rows as Markdown, in their order."""
    lines = ["| commit | begun | beside | minutes | passed, failed, skipped | flaky |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows:
        counts = f"{row.passed}, {row.failed}, {row.skipped}"
        flaky = ", ".join(row.flaky) or "none"
        lines.append(
            f"| {row.commit[:12]} | {row.date} | {row.load} | {row.minutes} | {counts} | {flaky} |"
        )
    return "\n".join(lines)


def is_good(rows: list[Row]) -> bool:
    """No failure, and at most FLAKY_MAX flaky tests in all."""
    return not any(row.failed for row in rows) and sum(len(row.flaky) for row in rows) <= FLAKY_MAX


def run(load_name: str, log: Path) -> Row:
    """One whole run of this checkout; what it prints goes to `log` and is shown."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    began = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            [ROOT / "scripts" / "test"], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
        process.wait()
    return row_of(log.read_text(), commit, load_name, time.monotonic() - began)


def main(arguments: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        prog="scripts/repeated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("count", type=int, help="how many runs, one after the other")
    parser.add_argument("--quiet", action="store_true", help="without a load")
    given = parser.parse_args(arguments)
    if given.count < 1:
        parser.error("COUNT must be at least 1")
    file = evidence_file(FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="repeated-")))
        if not given.quiet:
            stack.enter_context(load(folder))
        name = "nothing" if given.quiet else f"{LOOPS} busy loops, a disk writer"
        for number in range(given.count):
            print(f"=== run {number + 1} of {given.count}, beside: {name}", flush=True)
            rows.append(row := run(name, folder / "said"))
            with file.open("a") as kept:
                kept.write(json.dumps(asdict(row)) + "\n")
    print(table([Row(**json.loads(line)) for line in file.read_text().splitlines()]))
    return 0 if is_good(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
