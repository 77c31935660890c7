"""Commands that are late and asked for again, under faults: each is applied once in all."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from chaos.testing import process as processes
from chaos.testing.cluster import DENSE, Ended, MachineViolation, SimulatedRun
from chaos.testing.judge import Call
from chaos.testing.machine_node import MachineNode
from chaos.testing.objects import OBJECTS
from chaos.testing.process import MachineProcess
from dledger.errors import DledgerError, ProposalTimedOut
from dledger.machine.entries import Kind
from dledger.machine.proposer import Proposer

PATIENCE, TRIES = 0.25, 20


class AskedAgain(SimulatedRun):
    """Its clients have little patience, and ask again for what was late.

    `late`, `found`: commands that were late once, and those of them that got a result.
    """

    late = found = 0

    def _command(self, node: MachineNode, process: MachineProcess, ended: Ended) -> None:
        number = next(self._numbers)
        command = self._subject.draw(self._random, number)
        data = number.to_bytes(4, "big") + self._codec.encode(command)
        call = Call(data, node.id, self.scheduler.now)
        self.calls.append(call)
        tries = 0

        def done(result: Any, error: DledgerError | None) -> None:
            nonlocal tries
            self.late += isinstance(error, ProposalTimedOut) and not tries
            if isinstance(error, ProposalTimedOut) and tries < TRIES:
                tries += 1
                late = error
                self.scheduler.after(0.0, lambda _: node.in_process(process, lambda: again(late)))
                return
            self.found += error is None and tries > 0
            call.ended, call.result, call.error = self.scheduler.now, result, error
            ended()

        def again(error: ProposalTimedOut) -> None:
            ends_at = self.scheduler.now + PATIENCE
            try:
                process.proposer.again(error, done, ends_at, lambda: False)
            except DledgerError as refused:
                done(None, refused)
            process.soon()

        ends_at = self.scheduler.now + PATIENCE
        node.in_process(process, lambda: process.propose(data, done, ends_at))


def run(seed: int) -> AskedAgain:
    made = AskedAgain(OBJECTS["counter"], seed, DENSE, nodes=3, clients=3)
    made.run()
    return made


@pytest.fixture(autouse=True)
def late_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "Proposer", functools.partial(Proposer, late_max=100))


def test_each_is_applied_once() -> None:
    runs = [run(seed) for seed in range(2, 6)]
    assert all(made.late >= made.found for made in runs)
    assert sum(made.found for made in runs) > 5


def test_a_second_number_for_a_late_command_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a caller would do it who proposes the command once more."""

    def again(self: Proposer, error: Any, done: Any, ends_at: float, given_up: Any) -> None:
        self.propose(Kind.COMMAND, error.late.one.data, done, ends_at)

    monkeypatch.setattr(Proposer, "again", again)
    with pytest.raises(MachineViolation):
        run(0)
