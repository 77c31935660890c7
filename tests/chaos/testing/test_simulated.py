"""Machines in the simulator: the ready objects pass, and seeded faults in them are found."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.mutants.child import plan_of
from chaos.mutants.table import find
from chaos.mutants.within import line_within
from chaos.testing.__main__ import main
from chaos.testing.cluster import MachineViolation, run_seed, run_subject
from chaos.testing.counting import code_of_objects, count, rows_of, table_of
from chaos.testing.objects import OBJECTS
from chaos.testing.plugin import seeds_of
from dledger import Entry
from dledger.objects.counter import CounterMachine
from dledger.replica.freshness import Freshness

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_right_under_faults(name: str) -> None:
    report = run_subject(OBJECTS[name], 3)
    assert report.answered > 10
    assert report.reads > 0
    assert sum(report.faults.values()) > 0


def test_a_seed_gives_the_same_run() -> None:
    assert run_subject(OBJECTS["kv"], 3) == run_subject(OBJECTS["kv"], 3)


class WrongEverywhere(CounterMachine):
    """Adds each number twice, on every node alike."""

    def apply(self, entry: Entry[int]) -> int:
        self.total += 2 * entry.command
        return self.total


def test_a_rule_that_is_wrong_everywhere_alike_is_found_by_the_model() -> None:
    subject = replace(OBJECTS["counter"], make=WrongEverywhere)
    with pytest.raises(MachineViolation, match=r"^seed 0: not-the-models"):
        run_subject(subject, 0)
    assert run_subject(replace(subject, model=None), 0).answered > 10


def test_a_stale_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Freshness, "is_within", lambda *_: True)
    with pytest.raises(MachineViolation, match=r"^seed 0: stale-read"):
        run_subject(OBJECTS["counter"], 0)


def test_a_read_that_finds_what_was_never_there_is_found() -> None:
    subject = replace(OBJECTS["counter"], look=lambda machine, _: machine.total + 1)
    with pytest.raises(MachineViolation, match=r"^seed 0: wrong-read"):
        run_subject(subject, 0)


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
    """Seed 1 has a process that begins with a state, early."""
    with pytest.raises(MachineViolation, match=r"^seed 1: nodes-differ"):
        run_seed(Moody, lambda random, number: number, 1, seconds=8.0)


class Forgetful(Moody):
    """Its results are right; its checksum is of what its own process has seen."""

    def apply(self, entry: Entry[int]) -> int:
        return super().apply(entry) - self.seen

    def checksum(self) -> int:
        return self.seen


def test_a_checksum_by_more_than_the_state_is_found() -> None:
    with pytest.raises(MachineViolation, match=r"^seed 1: checksums-differ"):
        run_seed(Forgetful, lambda random, number: number, 1, seconds=8.0)


class Rotting(CounterMachine):
    """One of them has a bit that flips; its results tell of it in no way."""

    compare_every = 20
    made = 0

    def __init__(self) -> None:
        super().__init__()
        Rotting.made += 1
        self.rots = Rotting.made == 2

    def apply(self, entry: Entry[int]) -> int:
        self.total += entry.command
        if self.rots and entry.index > 10:
            self.total, self.rots = self.total ^ 1 << 40, False
        return 0


def test_a_state_that_rots_stops_its_node() -> None:
    with pytest.raises(AssertionError, match=r"the state differs behind entry 19"):
        run_seed(Rotting, lambda random, number: number, 0, seconds=8.0)


def test_counted_seeds_are_run_once_and_a_line_that_was_cut_short_again(tmp_path: Path) -> None:
    file = tmp_path / "seeds.jsonl"
    assert [row["seeds"] for row in count("counter", range(48, 51), file)] == [2, 1]
    assert list(count("counter", range(48, 51), file)) == []
    file.write_text(file.read_text()[:-5])
    assert [row["first"] for row in count("counter", range(48, 51), file)] == [50]
    last = table_of(file, code_of_objects()).splitlines()[-1]
    assert last.startswith("| counter | 3 | 0 | ")
    assert rows_of(file, "of other code") == []
    assert [row["first"] for row in count("counter", range(50, 52), file)] == [50]
    last = table_of(file, code_of_objects()).splitlines()[-1]
    assert last.startswith("| counter | 4 | 0 | "), "seed 50 counts once"


def test_a_seed_of_a_mutant_has_a_line_that_runs_it_again() -> None:
    plan = plan_of(find("a-watch-skips-a-revision"))
    assert line_within("m", plan.again(7)) == "python -m chaos.mutants.within m objects kv 7..8"
    assert (plan.run(3).violation, plan.again(3)) == ("", "python -m chaos.testing kv 3..4")


def test_seeds_are_a_count_or_a_range() -> None:
    assert (seeds_of("3"), seeds_of("7..9")) == (range(3), range(7, 9))
    for none in ("many", "0", "-1", "²"):
        with pytest.raises(pytest.UsageError, match="is no number of seeds; give"):
            seeds_of(none)
    for none in ("5..3", "4..4", "..3", "-2..1"):
        with pytest.raises(pytest.UsageError, match="A below B"):
            seeds_of(none)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("many", "many is no number of seeds; give"),
        ("5..3", "write A..B"),
        ("7/clients=x", "7/clients=x is no case; copy"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_words(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock", words]) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_the_command_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import chaos.testing.__main__"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
            assert [report.seed for report in reports] == [1]

        def test_forgetful(simulated_cluster):
            simulated_cluster.check(Forgetful, lambda random, number: number, seconds=8)
        """)
    )
    result = pytester.runpytest("--simulated-seeds", "1..2", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.re_match_lines(
        [
            r".*MachineViolation: seed 1: nodes-differ: ",
            r".*shrunk in \d+ runs to \d clients, [\d.]+ s and \d of \d faults:",
            r".*seed 1: nodes-differ: ",
            r".*this case again: --simulated-seeds 1/clients=",
        ]
    )
    told = [line for line in result.outlines if "this case again:" in line]
    (words,) = {line.rpartition(" ")[2] for line in told}  # in CI the summary has it, too
    again = pytester.runpytest("--simulated-seeds", words, "-k", "forget", "-p", "no:cacheprovider")
    again.assert_outcomes(failed=1, deselected=1)
    again.stdout.re_match_lines([r".*MachineViolation: seed 1: nodes-differ: "])
    again.stdout.no_re_match_line(".*shrunk in")
    off = ("--simulated-shrink", "0", "-k", "forget", "-p", "no:cacheprovider")
    whole = pytester.runpytest("--simulated-seeds", "1..2", *off)
    whole.assert_outcomes(failed=1, deselected=1)
    whole.stdout.no_re_match_line(".*shrunk in")
