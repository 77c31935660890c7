"""Run the layers of `scripts/check`, `test`, `interop` and `spark`, and add up their counts.

    python -m scripts.layers check | test [--long] [PATH ...] | interop | spark [--help]

    1 the machine   space on the disk, whose processes run, addresses of its own, how quick it is
    2 the layers    every one, also after a failure, so that one run shows all that is wrong
    3 once more     a test that failed is run alone; a verdict about safety is not (again.py)
    4 the end       flaky tests, failures, then `N passed, N failed, N skipped`

Exit code: 0 when nothing failed and at most three tests were flaky, 1 when something failed, 2 when
the machine cannot do it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from scripts.layers import again, machine, scratch, usage
from scripts.layers.again import Flaky
from scripts.layers.long_table import LongTable
from scripts.layers.outcome import Counts, Failure
from scripts.layers.plan import WORKERS, Layer, Plan, plan
from scripts.layers.running import Runner

TOOLS = machine.ROOT / ".tools"


def main(arguments: list[str]) -> int:
    """See the module's text."""
    if usage.ASKED & set(arguments[1:]):
        print(usage.HELP[arguments[0]], end="")
        return 0
    wanted = plan(arguments)
    environment = dict(os.environ)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(machine.only_run_here())
            _look_at_machine(wanted, environment, stack)
        except machine.CannotSucceed as reason:
            print(f"== not begun: {reason}\n0 passed, 1 failed, 0 skipped", flush=True)
            return 2
        return _run(wanted, environment)


def _look_at_machine(
    wanted: Plan, environment: dict[str, str], stack: contextlib.ExitStack
) -> None:
    """Step 1; adds to `environment` what tests are told of the machine."""
    for line in machine.end_what_earlier_runs_left(machine.found_processes()):
        print(f"== {line}", flush=True)
    scratch.remove_those_of_ended_runs()
    machine.require_room(wanted.name)
    machine.sign(environment)
    at_once = WORKERS + any(layer.beside and layer.tests for layer in wanted.layers)
    speed = machine.measure(at_once)
    environment[machine.FACTOR_VARIABLE] = str(speed.factor)
    environment[machine.SLOWNESS_VARIABLE] = str(speed.slowness)
    environment[machine.ADDRESSES_VARIABLE] = str(stack.enter_context(machine.addresses()))
    print(f"== machine: {speed}", flush=True)


def _run(wanted: Plan, environment: dict[str, str]) -> int:
    """Steps 2 to 4."""
    table = LongTable() if wanted.resumes else None
    layers = [layer for layer in wanted.layers if table is None or not table.passed(layer)]
    for layer in wanted.layers:
        if layer not in layers:
            print(f"== {layer.name}: passed on this tree before, not run again")
    runner = Runner(environment)
    failed: list[tuple[Layer, Counts, float]] = []

    def ended(layer: Layer, counts: Counts, seconds: float) -> None:
        if counts.failed:
            failed.append((layer, counts, seconds))
        elif table is not None:
            table.add(layer, counts, seconds)  # at once: a run that is stopped goes on from here

    total = runner.run_in_order(layers, ended)
    kept = Path(tempfile.mkdtemp(prefix="flaky-", dir=TOOLS)) if total.failed else TOOLS
    by_name = {layer.name: layer for layer in layers}
    flaky = again.ask_again(total, by_name, runner.run_alone, kept)
    if table is not None:
        for layer, counts, seconds in failed:
            table.add(layer, _after_asking(layer, counts, total), seconds)
        print(table.markdown(wanted.layers), flush=True)
    return _tell(wanted.name, total, flaky)


def _after_asking(layer: Layer, first: Counts, total: Counts) -> Counts:
    """The counts of a layer that failed, when its failures have been asked again."""
    left = [one for one in total.failures if one.layer == layer.name]
    return Counts(first.passed + first.failed - len(left), first.skipped, left)


def _tell(name: str, total: Counts, flaky: list[Flaky]) -> int:
    if len(flaky) > again.FLAKY_MAX:
        said = f"{len(flaky)} flaky tests, {again.FLAKY_MAX} may be"
        total.failures.append(Failure("flaky tests", said))
    for one in flaky:
        print(f"== flaky {one.test}: failed among others, passed alone; outputs in {one.kept}")
    if flaky:
        print(f"== {len(flaky)} flaky: write them into ROADMAP.md, and fix them before all else")
    told = "".join(f"== failed: {one}\n" for one in total.failures)
    (TOOLS / f"failed-{name}").write_text(told)
    print(told, total, sep="", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
