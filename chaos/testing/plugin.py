"""pytest: `simulated_cluster`, once for each seed that the command line asks for.

# conftest.py                                   pytest --simulated-seeds 500
pytest_plugins = ["chaos.testing.plugin"]       pytest --simulated-seeds 7..8

def test_my_machine(simulated_cluster):
    simulated_cluster.check(MyMachine, lambda random, number: ["put", random.choice("abc"), number])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from chaos.testing.cluster import Pace, Report, run_subject
from chaos.testing.subject import Draw, Look, MakeMachine, Model, Subject, look_at_nothing

#: Seeds when the command line says nothing about them.
SEEDS = "5"


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """Nodes in one thread, on a virtual clock, network and disks. `seeds`: one run for each."""

    seeds: range

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
        MachineViolation, whose text begins with the seed that shows it again.
        """
        subject, pace = Subject(make, draw, ask, look, model), Pace(seconds)
        reports = [
            run_subject(subject, seed, pace, nodes=nodes, clients=clients) for seed in self.seeds
        ]
        assert any(report.answered for report in reports), "no command was answered; add seeds"
        return reports


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest."""
    parser.addoption(
        "--simulated-seeds",
        default=SEEDS,
        help="seeds of simulated clusters: a count, or FIRST..BEHIND; a failing one is printed",
    )


@pytest.fixture
def simulated_cluster(request: pytest.FixtureRequest) -> SimulatedCluster:
    """A cluster for a state machine under test."""
    return SimulatedCluster(seeds_of(str(request.config.getoption("--simulated-seeds"))))


def seeds_of(text: str) -> range:
    """A count, or FIRST..BEHIND. Raises pytest.UsageError."""
    first, between, behind = text.partition("..")
    try:
        return range(int(first), int(behind)) if between else range(int(text))
    except ValueError as error:
        raise pytest.UsageError(
            f"--simulated-seeds {text} is no number; give a count, or FIRST..BEHIND"
        ) from error
