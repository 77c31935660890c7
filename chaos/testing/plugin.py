"""pytest: `simulated_cluster`, once for each seed that the command line asks for.

# conftest.py                                   pytest --simulated-seeds 500
pytest_plugins = ["chaos.testing.plugin"]       pytest --simulated-seeds 7..8
                                                pytest --simulated-seeds 7/clients=1/keep=2

def test_my_machine(simulated_cluster):
    simulated_cluster.check(MyMachine, lambda random, number: ["put", random.choice("abc"), number])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from chaos.testing import words
from chaos.testing.cluster import MachineViolation, Pace, Report, run_subject
from chaos.testing.shrink import RUNS_MAX, Case, Shrinking
from chaos.testing.subject import Draw, Look, MakeMachine, Model, Subject, look_at_nothing

#: Seeds when the command line says nothing about them.
SEEDS = "5"


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """Nodes in one thread, on a virtual clock, network and disks.

    Attributes:
        seeds: one run for each.
        case: the only run, in their place: less of one seed, as a failure has named it.
        shrink_runs: how many runs the search for the least of a failing seed may take.
    """

    seeds: range
    case: Case | None = None
    shrink_runs: int = 0

    def check(
        self,
        make: MakeMachine,
        draw: Draw,
        *,
        ask: Draw | None = None,
        look: Look = look_at_nothing,
        model: Callable[[], Model] | None = None,
        seconds: float = 20.0,
        nodes: int = 3,
        clients: int = 4,
    ) -> list[Report]:
        """Run `make()` on `nodes` nodes under faults for so many virtual seconds, for each seed.

        `draw(random, number)`: the next command of a client, where `number` counts up; `ask` draws
        questions for linearizable reads, `look(machine, question)` answers them. `model`: makes
        what results and answers are compared with (`chaos.testing.subject.Model`). Raises
        MachineViolation, whose text begins with the seed that shows it again, and ends with the
        least of it that does.
        """
        subject, pace = Subject(make, draw, ask, look, model), Pace(seconds)
        if self.case is not None:
            shrinking = Shrinking(subject, self.case.seed, pace, nodes=nodes, clients=clients)
            return [shrinking.play(self.case)]
        reports = []
        for seed in self.seeds:
            try:
                reports.append(run_subject(subject, seed, pace, nodes=nodes, clients=clients))
            except MachineViolation as violation:
                shrinking = Shrinking(subject, seed, pace, nodes=nodes, clients=clients)
                shrunk = shrinking.shrink(self.shrink_runs) if self.shrink_runs else None
                if shrunk is None:
                    raise
                raise MachineViolation(f"{violation}\n{shrunk.text()}") from None
        assert any(report.answered for report in reports), "no command was answered; add seeds"
        return reports


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest."""
    parser.addoption(
        "--simulated-seeds",
        default=SEEDS,
        help="seeds of simulated clusters: a count, FIRST..BEHIND, or the case that a failure has "
        "named; a failing one is printed",
    )
    parser.addoption(
        "--simulated-shrink",
        default=RUNS_MAX,
        type=int,
        metavar="RUNS",
        help="how many runs the search for the least of a failing seed may take; 0: none",
    )


@pytest.fixture
def simulated_cluster(request: pytest.FixtureRequest) -> SimulatedCluster:
    """A cluster for a state machine under test."""
    text = str(request.config.getoption("--simulated-seeds"))
    if "/" in text:
        return SimulatedCluster(range(0), a_case(text))
    return SimulatedCluster(
        seeds_of(text), shrink_runs=int(request.config.getoption("--simulated-shrink"))
    )


def a_case(text: str) -> Case:
    """As `words.a_case`. Raises pytest.UsageError."""
    try:
        return words.a_case(text)
    except ValueError as error:
        raise pytest.UsageError(f"--simulated-seeds {error}") from error


def seeds_of(text: str) -> range:
    """As `words.seeds_of`. Raises pytest.UsageError."""
    try:
        return words.seeds_of(text)
    except ValueError as error:
        raise pytest.UsageError(f"--simulated-seeds {error}") from error
