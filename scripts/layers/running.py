"""Run layers, one after the other or beside each other, and collect what came of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from scripts.layers import machine
from scripts.layers import scratch as scratch_folders
from scripts.layers.machine import ROOT
from scripts.layers.outcome import Counts, Failure, of_report
from scripts.layers.plan import Layer

BIN = Path(sys.executable).parent
# Of a gate's output, where it is no terminal's; in lines, and in characters of one.
SHOWN_OF_PASSED, SHOWN_OF_FAILED, LINE_CHARACTERS_MAX = 4, 60, 300
#: What a step that others wait for may take; then it is ended, so that the run has an end.
LAYER_SECONDS_MAX = 3600
COUNTS_VARIABLE = "DLEDGER_COUNTS"
#: Where the disk is, for tests whose subject it is (tests/conftest.py: on_disk).
DISK_VARIABLE = "DLEDGER_TEST_DISK"


class Runner:
    """Runs layers with one environment; `scratch_kept` are the folders of layers that failed."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._adding = threading.Lock()
        self.scratch_kept: list[Path] = []

    def run_in_order(
        self, layers: list[Layer], ended: Callable[[Layer, Counts, float], None]
    ) -> Counts:
        """All of them; those that others may run beside are waited for at the end.

        `ended(layer, its counts, seconds)` is called for each, also from other threads.
        """
        total = Counts()
        beside: list[tuple[Layer, threading.Thread]] = []

        def run(layer: Layer) -> None:
            for other, thread in tuple(beside):
                if other.name in layer.after:
                    thread.join()
            started = time.monotonic()
            try:
                counts = self.run(layer)
            except Exception as reason:  # a thread would end, and the layer would not be counted
                counts = Counts(failures=[Failure(layer.name, f"not run: {reason!r}")])
            with self._adding:
                total.add(counts)
                ended(layer, counts, time.monotonic() - started)

        for layer in layers:
            if layer.beside:
                beside.append((layer, threading.Thread(target=run, args=(layer,))))
                beside[-1][1].start()
            elif any(thread.is_alive() and other.goes_first for other, thread in beside):
                run(replace(layer, command=("nice", *layer.command)))
            else:
                run(layer)
                if not any(thread.is_alive() for _, thread in beside):
                    self._end_leftovers(layer)
        for _, thread in beside:
            thread.join()
        if beside:
            self._end_leftovers(beside[-1][0])
        return total

    def run(self, layer: Layer) -> Counts:
        """Run one layer, say what came of it, and keep what it left when it failed."""
        print(f"== {layer.name}", flush=True)
        started = time.monotonic()
        # All that a layer writes is below one folder, so that nothing is left when it has passed.
        scratch = scratch_folders.make(in_memory=layer.in_memory)
        with self._addresses_of(layer) as variables:
            counts = self._counts_of(layer, scratch, variables)
        if counts.failed:
            scratch = scratch_folders.kept(scratch)
            (scratch / "failures.txt").write_text("".join(f"{one}\n" for one in counts.failures))
            print(f"== what the failed tests left is in {scratch}")
            self.scratch_kept.append(scratch)
        else:
            shutil.rmtree(scratch, ignore_errors=True)
        print(f"== {layer.name}: {counts} in {time.monotonic() - started:.0f} s", flush=True)
        return counts

    def run_alone(self, layer: Layer, output: Path) -> int:
        """Run a layer's command with its output in a file; its exit code, 1 if no test passed.

        It writes where the layer writes, to memory or to the disk.

        A test that is skipped ends with exit code 0 and has shown nothing: it has not passed.
        """
        print(f"== {layer.name}", flush=True)
        scratch = scratch_folders.make(in_memory=layer.in_memory)
        try:
            report = scratch / "counts.json"
            variables = {
                "TMPDIR": str(scratch),
                DISK_VARIABLE: tempfile.gettempdir(),
                COUNTS_VARIABLE: str(report),
            }
            code = self._execute(layer, variables, output)
            passed = (
                report.exists() and of_report(layer.name, json.loads(report.read_text())).passed
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        code = code if passed else code or 1
        print(f"== {layer.name}: {'failed again' if code else 'passed'}", flush=True)
        return code

    @contextlib.contextmanager
    def _addresses_of(self, layer: Layer) -> Iterator[dict[str, str]]:
        """Tests beside others have addresses of their own: each run counts its own from the first.

        Raises CannotSucceed when other runs hold all of them.
        """
        if not (layer.beside and layer.tests):
            yield {}
            return
        with machine.addresses() as number:
            yield {machine.ADDRESSES_VARIABLE: str(number)}

    def _counts_of(self, layer: Layer, scratch: Path, addresses: dict[str, str]) -> Counts:
        """Run the layer's command in `scratch`; what came of it."""
        if not layer.tests:
            code, last = self._run_gate(layer, scratch)
            return _of_gate(layer, code, last)
        with tempfile.TemporaryDirectory(prefix="counts-", dir=ROOT / ".tools") as folder:
            report = Path(folder) / "counts.json"
            variables = {
                **addresses,
                "TMPDIR": str(scratch),
                DISK_VARIABLE: tempfile.gettempdir(),
                COUNTS_VARIABLE: str(report),
            }
            code = self._execute(layer, variables, scratch / "output.txt" if layer.beside else None)
            if layer.beside:
                _show_end(scratch / "output.txt", code)
            if not report.exists():
                return _of_gate(layer, code or 1, "pytest did not come to its end")
            counts = of_report(layer.name, json.loads(report.read_text()))
        if code not in (0, 5) and not counts.failed:
            # pytest itself failed: usage, internal error, interrupted
            counts.failures.append(Failure(layer.name, f"pytest ended with exit code {code}"))
        return counts

    def _run_gate(self, layer: Layer, scratch: Path) -> tuple[int, str]:
        """Run a gate; its exit code and its last line.

        On a terminal it prints as it goes, when nothing else does. Elsewhere, where a log should
        stay short enough for its end to be read, what it prints goes to a file, whose end is shown.
        """
        variables = {"TMPDIR": str(scratch)}
        is_main = threading.current_thread() is threading.main_thread()
        if sys.stdout.isatty() and is_main and not layer.is_quiet:
            return self._execute(layer, variables, None), ""
        code = self._execute(layer, variables, scratch / "output.txt")
        if layer.is_quiet and not code:
            return code, ""
        return code, _show_end(scratch / "output.txt", code)

    def _execute(self, layer: Layer, variables: dict[str, str], output: Path | None) -> int:
        program, *rest = layer.command
        if program == "nice":
            command = [program, "-n", "10", str(BIN / rest[0]), *rest[1:]]
        else:
            command = [str(BIN / program), *rest]
        environment = {**self._environment, **variables}
        with open(output or os.devnull, "wb") as file:
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=file if output else None,
                stderr=subprocess.STDOUT if output else None,
            )
            try:
                return child.wait(timeout=LAYER_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                print(f"== {layer.name} is ended: it took more than {LAYER_SECONDS_MAX} s")
                process = psutil.Process(child.pid)
                machine.end([*process.children(recursive=True), process])
                child.wait()
                return 124

    def _end_leftovers(self, layer: Layer) -> None:
        left = machine.left_by_this_run()
        for process in left:
            print(f"== {layer.name} left process {process.pid}; it is ended", flush=True)
        machine.end(left)


def _show_end(output: Path, code: int) -> str:
    """Print the end of what a step said; its last line."""
    lines = [line.strip() for line in output.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line]
    for line in said[-(SHOWN_OF_FAILED if code else SHOWN_OF_PASSED) :]:
        print(line[:LINE_CHARACTERS_MAX])
    return said[-1] if said else ""


def _of_gate(layer: Layer, code: int, last: str = "") -> Counts:
    """A command that has no counts of its own: passed, or failed with what it said last."""
    if code == 0:
        return Counts(passed=1)
    return Counts(failures=[Failure(layer.name, f"exit code {code} {last}".strip())])
