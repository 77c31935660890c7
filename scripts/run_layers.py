"""Run the layers of `scripts/check` and `scripts/test` one after the other and add up their counts.

    gate     a command that must exit 0: counts as one passed or one failed
    pytest   a run of tests: its own counts, which tests/conftest.py writes to $DLEDGER_COUNTS

Every layer runs, also after a failure, so that one run shows all that is wrong. The last line is
`N passed, N failed, N skipped` and the exit code is 1 when anything failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Layer:
    """One step: `command` without its folder; `tests` when it is a pytest run."""

    name: str
    command: tuple[str, ...]
    tests: bool = False


@dataclass(slots=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


GATES = (
    Layer("format", ("ruff", "format", "--check", "-q", ".")),
    Layer("lint", ("ruff", "check", "-q", ".")),
    Layer("types", ("mypy",)),
    Layer("import arrows", ("lint-imports", "--no-logo")),
    Layer("architecture", ("pytest", "-n0", "tests/architecture"), tests=True),
)
SUITE_PATHS = ("tests", "--ignore=tests/architecture", "--ignore=tests/bench")
SUITE = Layer(
    "suite",
    ("pytest", "-n2", "--dist=loadscope", "-m", "not long", *SUITE_PATHS),
    tests=True,
)
# Benchmarks share the machine with nobody, so that their floors mean something.
BENCHES = Layer("benchmarks, smoke size", ("pytest", "-n0", "-m", "not long", "tests/bench"), True)
LONG = (
    Layer("long tests", ("pytest", "-n0", "-m", "long", "tests"), tests=True),
    Layer("1,000 simulated clusters", ("dledger", "sim", "--seeds", "0..1000", "--jobs", "2")),
    Layer("rules taken out one by one", ("dledger", "mutants", "--jobs", "2")),
)


def plan(arguments: list[str]) -> tuple[str, list[Layer]]:
    """What to run for a command line, and the name under which the counts are kept."""
    what, *rest = arguments
    if what == "check":
        return "check", list(GATES)
    if "--long" in rest:
        rest.remove("--long")
        if not rest:
            return "long", list(LONG)
        chosen = ("pytest", "-n0", "-m", "long", *rest)
        return "long", [Layer("chosen long tests", chosen, tests=True)]
    if rest:
        return "test", [Layer("chosen tests", ("pytest", "-n2", *rest), tests=True)]
    return "test", [*GATES, SUITE, BENCHES]


def run(layer: Layer, total: Counts) -> None:
    """Run one layer and add its counts to `total`."""
    print(f"== {layer.name}", flush=True)
    started = time.monotonic()
    program, *rest = layer.command
    with tempfile.TemporaryDirectory(prefix="counts-", dir=ROOT / ".tools") as folder:
        counts_file = Path(folder) / "counts.json"
        environment = {**os.environ, "DLEDGER_COUNTS": str(counts_file)}
        code = subprocess.run([str(BIN / program), *rest], cwd=ROOT, env=environment).returncode
        counts = Counts(passed=int(code == 0), failed=int(code != 0))
        if layer.tests and counts_file.exists():
            counts = Counts(**json.loads(counts_file.read_text()))
            if code not in (0, 5) and not counts.failed:
                counts.failed = 1  # pytest itself failed: usage, internal error, interrupted
    total.passed += counts.passed
    total.failed += counts.failed
    total.skipped += counts.skipped
    print(f"== {layer.name}: {counts} in {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    (ROOT / ".tools").mkdir(exist_ok=True)
    name, layers = plan(sys.argv[1:])
    total = Counts()
    for layer in layers:
        run(layer, total)
    (ROOT / ".tools" / f"counts-{name}").write_text(
        f"{total.passed} {total.failed} {total.skipped}\n"
    )
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
