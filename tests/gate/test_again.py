"""A test that failed is run once more, alone; a verdict about safety never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.layers import again
from scripts.layers.outcome import Counts, Failure
from scripts.layers.plan import Layer
from tests import layer_report

SUITE = Layer("suite", ("pytest", "tests"), ("pytest", "-n0"), in_memory=True)
LAYERS = {SUITE.name: SUITE}


def failure(test: str, *, safety: bool = False) -> Failure:
    return Failure("suite", "assert 1 == 2", test, "the whole report", safety)


class Alone:
    """Stands in for running a layer: notes what was asked, fails for the tests named."""

    def __init__(self, *failing: str) -> None:
        self.failing, self.asked = failing, list[str]()

    def __call__(self, layer: Layer, output: Path) -> int:
        *command, test = layer.command
        assert (tuple(command), layer.in_memory) == (SUITE.alone, SUITE.in_memory)
        self.asked.append(test)
        output.write_text("again\n")
        return int(test in self.failing)


def test_failure_that_passes_alone_is_flaky_and_both_outputs_are_kept(tmp_path: Path) -> None:
    counts = Counts(10, 1, [failure("tests/a.py::test_a")])
    (flaky,) = again.ask_again(counts, LAYERS, Alone(), tmp_path)
    assert (counts.passed, counts.failed, counts.skipped) == (11, 0, 1)
    assert flaky.test == "tests/a.py::test_a"
    assert "the whole report" in (flaky.kept / "first.txt").read_text()
    assert (flaky.kept / "again.txt").read_text() == "again\n"


def test_failure_that_fails_alone_stays_a_failure(tmp_path: Path) -> None:
    counts = Counts(10, 0, [failure("tests/a.py::test_a"), failure("tests/a.py::test_b")])
    found = again.ask_again(counts, LAYERS, Alone("tests/a.py::test_a"), tmp_path)
    assert [one.test for one in found] == ["tests/a.py::test_b"]
    assert [one.test for one in counts.failures] == ["tests/a.py::test_a"]


def test_verdict_gate_and_module_that_was_not_collected_are_never_asked(tmp_path: Path) -> None:
    failures = [
        failure("tests/a.py::test_lost", safety=True),
        Failure("types", "exit code 1"),
        Failure("suite", "ImportError", "tests/b.py"),
    ]
    counts, alone = Counts(0, 0, list(failures)), Alone()
    assert again.ask_again(counts, LAYERS, alone, tmp_path) == []
    assert alone.asked == []
    assert counts.failures == failures


def test_more_failures_than_an_accident_makes_are_not_asked(tmp_path: Path) -> None:
    many = [failure(f"tests/a.py::test_{number}") for number in range(again.ASKED_MAX + 1)]
    counts, alone = Counts(0, 0, list(many)), Alone()
    assert again.ask_again(counts, LAYERS, alone, tmp_path) == []
    assert alone.asked == []
    assert counts.failures == many


@pytest.mark.parametrize(
    ("nodeid", "markers", "said", "verdict"),
    [
        ("tests/cluster/test_x.py::test_y", set(), "assert 3 == 0", False),
        ("tests/cluster/test_x.py::test_y", {"safety"}, "assert 3 == 0", True),
        ("tests/chaos/sim/test_x.py::test_y", set(), "assert 3 == 0", True),
        ("tests/paper/test_x.py::test_y", set(), "assert 3 == 0", True),
        ("tests/integration/test_x.py::test_y", set(), "assert 0 == 3 (lost)", True),
        ("tests/integration/test_x.py::test_y", set(), "2 doubled", True),
        ("tests/integration/test_x.py::test_y", set(), "replicas diverge at 7", True),
        ("tests/integration/test_x.py::test_y", set(), "SafetyViolation: two leaders", True),
        ("tests/integration/test_x.py::test_y", set(), "the connection was lost", False),
    ],
)
def test_verdicts_are_told_from_other_failures(
    nodeid: str, markers: set[str], said: str, verdict: bool
) -> None:
    assert layer_report.is_verdict(nodeid, frozenset(markers), said) is verdict
