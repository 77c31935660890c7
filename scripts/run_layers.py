"""Run the layers of `scripts/check`, `test`, `interop` and `spark`, and add up their counts.

    gate     a command that must exit 0: counts as one passed or one failed
    pytest   a run of tests: its own counts, which tests/conftest.py writes to $DLEDGER_COUNTS

Every layer runs, also after a failure, so that one run shows all that is wrong. The last lines are
each failure's name and `N passed, N failed, N skipped`; the exit code is 1 when anything failed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# The two GiB of the recovery test on three nodes, and room beside it.
DISK_FREE_MIN = 12 << 30
# Of a gate's output, where it is no terminal's; in lines, and in characters of one.
_adding = threading.Lock()
SHOWN_OF_PASSED, SHOWN_OF_FAILED, LINE_CHARACTERS_MAX = 4, 60, 300


@dataclass(frozen=True, slots=True)
class Layer:
    """One step: `command` without its folder; `tests` when it is a pytest run.

    `beside`: the steps behind it run at the same time, and what it prints is shown when it has
    ended. They make way for it, unless it is itself `nice`.
    """

    name: str
    command: tuple[str, ...]
    tests: bool = False
    beside: bool = False


@dataclass(slots=True)
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    #: Each failure in a line.
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


GATES = (
    Layer("format", ("ruff", "format", "--check", "-q", ".")),
    Layer("lint", ("ruff", "check", "-q", ".")),
    Layer("types", ("mypy",)),
    Layer("import arrows", ("lint-imports", "--no-logo")),
    Layer("architecture", ("pytest", "-n0", "tests/architecture"), tests=True),
)
SUITE_PATHS = (
    *("tests", "--ignore=tests/architecture", "--ignore=tests/bench"),
    "--ignore=tests/interop",
    "--ignore=tests/pipeline/spark",
)
# Its tests wait more than they work (elections, sockets, syncs): more workers than processors.
SUITE = Layer(
    "suite",
    ("pytest", "-n4", "--dist=loadscope", "-m", "not long", *SUITE_PATHS),
    tests=True,
)
# Benchmarks share the machine with nobody, so that their floors mean something.
BENCHES = Layer("benchmarks, smoke size", ("pytest", "-n0", "-m", "not long", "tests/bench"), True)
# Foreign clients: what is installed already; in CI all of them (tests/interop/README.md).
INTEROP_SMOKE = Layer(
    "interop, smoke", ("pytest", "-n0", "-m", "not long", "tests/interop"), tests=True
)
# One session for all, in an environment of its own; in CI that is made (spark_tests.py).
SPARK_TESTS = ("python", "scripts/spark_tests.py")
SPARK_PATH = "tests/pipeline/spark"
SPARK = Layer("spark", (*SPARK_TESTS, "-n0", "-m", "not long", SPARK_PATH), tests=True)
# Other people's programs, where they may be installed: while the suite waits.
PREPARED = (
    Layer(
        "set-up of clients", ("nice", "python", "-m", "tests.interop.harness.prepare"), beside=True
    ),
    Layer("set-up of Spark", ("nice", *SPARK_TESTS, "make-in-ci"), beside=True),
)
SPARK_LONG = Layer("spark, long", (*SPARK_TESTS, "-n0", "-m", "long", SPARK_PATH), tests=True)
INTEROP = Layer(
    "interop, whole",
    ("pytest", "-n2", "--dist=loadfile", "-m", "long", "tests/interop"),
    tests=True,
)
LONG_PATHS = ("tests", "--ignore=tests/interop", f"--ignore={SPARK_PATH}")
LONG = (
    Layer(
        "long tests",
        (
            *("pytest", "-n3", "--dist=loadfile", "-m", "long and not soak and not alone"),
            *LONG_PATHS,
        ),
        tests=True,
    ),
    Layer("long tests, alone", ("pytest", "-n0", "-m", "long and alone", *LONG_PATHS), tests=True),
    INTEROP,
    SPARK_LONG,
    Layer(
        "five minutes of mixed faults, three of power cuts",
        ("pytest", "-n0", "-m", "soak", "tests/chaos/live"),
        tests=True,
        beside=True,
    ),
    Layer("1,000 simulated clusters", ("dledger", "sim", "--seeds", "0..1000", "--jobs", "2")),
    Layer(
        "500 whose members, logs and disks change",
        ("dledger", "sim", "--everything", "--seeds", "0..500", "--seconds", "30", "--jobs", "2"),
    ),
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
    if what == "interop":
        chosen = ("pytest", "-n0", "-m", "long or not long", *(rest or ["tests/interop"]))
        return "interop", [Layer("interop", chosen, tests=True)]
    if what == "spark":
        chosen = (*SPARK_TESTS, "make", "-n0", "-m", "long or not long", *(rest or [SPARK_PATH]))
        return "spark", [Layer("spark", chosen, tests=True)]
    if rest:
        return "test", [Layer("chosen tests", ("pytest", "-n2", *rest), tests=True)]
    return "test", [*GATES, *PREPARED, SUITE, INTEROP_SMOKE, SPARK, BENCHES]


def _run_gate(command: list[str], environment: dict[str, str], output: Path) -> tuple[int, str]:
    """Run a gate and return its exit code and its last line.

    On a terminal it prints as it goes, when nothing else does. Elsewhere, where a log should stay
    short enough for its end to be read, what it prints goes to `output`, and its end is shown.
    """
    if sys.stdout.isatty() and threading.current_thread() is threading.main_thread():
        return subprocess.run(command, cwd=ROOT, env=environment).returncode, ""
    with output.open("w") as file:
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        ).returncode
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line]
    for line in said[-(SHOWN_OF_FAILED if code else SHOWN_OF_PASSED) :]:
        print(line[:LINE_CHARACTERS_MAX])
    return code, said[-1] if said else ""


def run_in_order(layers: list[Layer]) -> Counts:
    """All of them; those that others may run beside are waited for at the end."""
    total = Counts()
    beside: list[tuple[Layer, threading.Thread]] = []
    for layer in layers:
        if layer.beside:
            beside.append((layer, threading.Thread(target=run, args=(layer, total))))
            beside[-1][1].start()
        elif any(thread.is_alive() and not _is_nice(other) for other, thread in beside):
            run(replace(layer, command=("nice", *layer.command)), total)
        else:
            run(layer, total)
    for _, thread in beside:
        thread.join()
    return total


def _is_nice(layer: Layer) -> bool:
    return layer.command[0] == "nice"


def run(layer: Layer, total: Counts) -> None:
    """Run one layer and add its counts to `total`."""
    print(f"== {layer.name}", flush=True)
    started = time.monotonic()
    # All that a layer writes is below one folder, so that nothing is left when it has passed.
    scratch = Path(tempfile.mkdtemp(prefix="dledger-"))
    counts = _counts_of(layer, scratch)
    if counts.failed:
        (scratch / "failures.txt").write_text("".join(f"{one}\n" for one in counts.failures))
        print(f"== what the failed tests left is in {scratch}")
    else:
        shutil.rmtree(scratch, ignore_errors=True)
    with _adding:
        total.passed += counts.passed
        total.failed += counts.failed
        total.skipped += counts.skipped
        total.failures += counts.failures
    print(f"== {layer.name}: {counts} in {time.monotonic() - started:.0f} s", flush=True)


def _counts_of(layer: Layer, scratch: Path) -> Counts:
    """Run the layer's command in `scratch`; what came of it."""
    program, *rest = layer.command
    if program == "nice":
        rest[0] = str(BIN / rest[0])
        command = [program, "-n", "10", *rest]
    else:
        command = [str(BIN / program), *rest]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    if not layer.tests:
        code, last = _run_gate(command, environment, scratch / "output.txt")
        return _one(layer, code, last)
    with tempfile.TemporaryDirectory(prefix="counts-", dir=ROOT / ".tools") as folder:
        counts_file = Path(folder) / "counts.json"
        environment["DLEDGER_COUNTS"] = str(counts_file)
        if layer.beside:
            code, _ = _run_gate(command, environment, scratch / "output.txt")
        else:
            code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        if not counts_file.exists():
            return _one(layer, code)  # pytest did not come to its end
        counts = Counts(**json.loads(counts_file.read_text()))
    if code not in (0, 5) and not counts.failed:
        counts.failed = 1  # pytest itself failed: usage, internal error, interrupted
        counts.failures.append(f"{layer.name}: pytest ended with exit code {code}")
    return counts


def _one(layer: Layer, code: int, last: str = "") -> Counts:
    """A command that has no counts of its own: passed, or failed with what it said last."""
    if code == 0:
        return Counts(passed=1)
    return Counts(failed=1, failures=[f"{layer.name}: exit code {code} {last}".strip()])


def warn_about_disk() -> None:
    """Brokers refuse producers on a disk that is 90 % full, as RocketMQ's do: say so beforehand."""
    disk = shutil.disk_usage(tempfile.gettempdir())
    if disk.free < DISK_FREE_MIN or disk.used + DISK_FREE_MIN > 0.88 * (disk.used + disk.free):
        print(
            f"== warning: {tempfile.gettempdir()} has {disk.free >> 30} GiB free. Tests write up to"
            f" {DISK_FREE_MIN >> 30} GiB, and brokers refuse producers above 90 % of a disk: free"
            " some space, or set TMPDIR to a folder on another disk.",
            flush=True,
        )


def main() -> int:
    (ROOT / ".tools").mkdir(exist_ok=True)
    name, layers = plan(sys.argv[1:])
    warn_about_disk()
    total = run_in_order(layers)
    kept = f"{total.passed} {total.failed} {total.skipped}\n"
    (ROOT / ".tools" / f"counts-{name}").write_text(kept)
    told = "".join(f"== failed: {one}\n" for one in total.failures)
    (ROOT / ".tools" / f"failed-{name}").write_text(told)
    print(told, total, sep="", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
