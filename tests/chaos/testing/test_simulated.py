"""Machines in the simulator: the ready objects pass, and seeded faults in them are found."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from chaos.testing.cluster import MachineViolation, run_seed
from chaos.testing.objects import OBJECTS
from chaos.testing.plugin import seeds_of
from dledger import Entry
from dledger.objects.counter import CounterMachine

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_right_under_faults(name: str) -> None:
    make, draw = OBJECTS[name]
    report = run_seed(make, draw, 2, seconds=8.0)
    assert report.answered > 10
    assert sum(report.faults.values()) > 0


def test_a_seed_gives_the_same_run() -> None:
    make, draw = OBJECTS["kv"]
    assert run_seed(make, draw, 3, seconds=3.0) == run_seed(make, draw, 3, seconds=3.0)


class Moody(CounterMachine):
    """Adds what its own process has seen, which differs after a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def apply(self, entry: Entry[int]) -> int:
        self.seen += 1
        self.total += entry.command
        return self.total + self.seen


def test_a_state_that_is_not_all_in_the_snapshot_is_found() -> None:
    """Seed 4 has a process that begins with a state, early."""
    with pytest.raises(MachineViolation, match=r"^seed 4: nodes-differ"):
        run_seed(Moody, lambda random, number: number, 4, seconds=8.0)


def test_seeds_are_a_count_or_a_range() -> None:
    assert (seeds_of("3"), seeds_of("7..9")) == (range(3), range(7, 9))
    with pytest.raises(pytest.UsageError, match="is no number; give"):
        seeds_of("many")


def test_the_fixture_takes_seeds_from_the_command_line_and_prints_the_failing_one(
    pytester: Any,
) -> None:
    pytester.makeconftest('pytest_plugins = ["chaos.testing.plugin"]')
    pytester.makepyfile(
        textwrap.dedent("""
        from dledger.objects.counter import CounterMachine

        class Forgetful(CounterMachine):
            def restore(self, state):
                self.total = 0

        def test_good(simulated_cluster):
            reports = simulated_cluster.check(CounterMachine, lambda random, number: 1, seconds=2)
            assert [report.seed for report in reports] == [4]

        def test_forgetful(simulated_cluster):
            simulated_cluster.check(Forgetful, lambda random, number: number, seconds=8)
        """)
    )
    result = pytester.runpytest("--simulated-seeds", "4..5", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines([r".*MachineViolation: seed 4: "])
