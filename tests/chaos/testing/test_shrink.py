"""A failing seed of a machine with a planted fault becomes less, and fails again as that."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from chaos.testing.__main__ import main
from chaos.testing.cluster import MachineViolation, Pace
from chaos.testing.objects import OBJECTS
from chaos.testing.shrink import Case, Shrinking, case_of
from chaos.testing.subject import Subject
from dledger import Entry
from dledger.objects.counter import CounterMachine


class Forgetful(CounterMachine):
    """Restores nothing: seen when a node is started again, or killed, with a state."""

    def restore(self, state: bytes) -> None:
        self.total = 0


class Doubling(CounterMachine):
    """Each machine adds its own number: wrong without any fault."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.number = next(self.numbers)

    def apply(self, entry: Entry[int]) -> int:
        self.total += self.number + entry.command
        return self.total


def shrinking(machine: type[CounterMachine], seed: int, seconds: float = 8.0) -> Shrinking:
    subject = Subject(machine, lambda random, number: number)
    return Shrinking(subject, seed, Pace(seconds), nodes=3, clients=4)


def test_what_is_left_is_less_and_shows_the_same_violation() -> None:
    shrunk = shrinking(Forgetful, 10, 20.0).shrink()
    assert shrunk is not None
    assert shrunk.case.clients is not None
    assert shrunk.case.seconds is not None
    assert shrunk.case.clients < 4
    assert 1 <= len(shrunk.faults) < shrunk.whole
    assert shrunk.faults[-1].at < shrunk.case.seconds < 20
    assert tuple(one.number for one in shrunk.faults) == shrunk.case.kept
    with pytest.raises(MachineViolation) as found:
        shrinking(Forgetful, 10, 20.0).play(case_of(shrunk.case.words()))
    assert str(found.value) == shrunk.violation
    assert shrunk.violation.startswith("seed 10: nodes-differ: ")
    assert f"--simulated-seeds {shrunk.case.words()}" in shrunk.text()
    without = Case(10, shrunk.case.clients, shrunk.case.seconds, ())
    assert shrinking(Forgetful, 10, 20.0).play(without).faults == {}


def test_what_fails_without_faults_is_shrunk_to_none() -> None:
    shrunk = shrinking(Doubling, 3).shrink()
    assert shrunk is not None
    assert (shrunk.case.clients, shrunk.case.kept, shrunk.faults) == (1, (), ())
    assert "\n  none\n" in shrunk.text()


def test_a_seed_that_is_right_is_not_shrunk() -> None:
    assert shrinking(CounterMachine, 3).shrink() is None


def test_the_search_ends_at_its_bound() -> None:
    shrunk = shrinking(Forgetful, 1).shrink(3)
    assert shrunk is not None
    assert shrunk.runs == 3


@pytest.mark.parametrize(
    "case",
    [Case(7), Case(7, 1), Case(7, 2, 3.5, (), 0), Case(7, 4, 20.0, (2, 5), 1)],
    ids=Case.words,
)
def test_words_name_a_case(case: Case) -> None:
    assert case_of(case.words()) == case


@pytest.mark.parametrize("words", ["x", "7/clients", "7/keep=a", "7/speed=3", ""])
def test_other_words_are_none(words: str) -> None:
    with pytest.raises(ValueError, match=r"^\w|not enough|invalid"):
        case_of(words)


def test_the_command_shrinks_a_failing_seed_and_runs_what_is_left_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["counter", "14..15"]) == 0, "the shipping object is right"
    assert "shrunk" not in capsys.readouterr().out
    monkeypatch.setitem(OBJECTS, "counter", replace(OBJECTS["counter"], make=Forgetful))
    assert main(["counter", "0..40"]) == 1
    *_, violation, shrunk, again = parts(capsys.readouterr().out)
    kind = violation.split(": ")[1]
    assert shrunk.startswith("shrunk in ")
    begin, _, words = again.rpartition(" ")
    assert begin == "this case again: python -m chaos.testing counter"
    assert main(["counter", words]) == 1
    told = capsys.readouterr().out
    assert told.startswith(f"counter seed {words}: {kind}: ")
    monkeypatch.undo()
    assert main(["counter", words]) == 0, "the same faults, and the shipping object"
    assert main(["counter", f"{words}/keep=none"]) == 0


def parts(text: str) -> list[str]:
    """Lines that are not one of the shrunk faults, nor the violation of the shrunk case."""
    begins = ("counter seed", "shrunk in", "this case again")
    return [line for line in text.splitlines() if line.startswith(begins)]
