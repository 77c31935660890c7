"""Delayed messages and transactions in a run: judged with it, and on real processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.checkers.deferred import Span
from chaos.checkers.queues import Replica
from chaos.checkers.verdict import Word
from chaos.faults import Target
from chaos.history import Kind, Operation, Outcome
from chaos.live.arena import Arena
from chaos.live.client_processes import ClientProcesses
from chaos.live.deferred_judgement import judge_deferred, wrong_clocks
from chaos.live.judgement import Evidence, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.live.run import TOPIC, read_replicas
from chaos.live.settings import NODE_SETTINGS
from chaos.schedule import Planned
from chaos.workloads import Workload
from cluster.local import plan
from tests.waiting import eventually, limit

#: Of delayed messages, before a client dies.
ACKED = 6
LOAD = Workload(
    queues=1, producers=1, keyed=0, readers=0, registers=0, groups=0, rate=10.0, asks=12.0
)
SENT = Operation("p0", Kind.APPEND, "p0-0", 1.0, 1.1, Outcome.OK, 0, "q0")
DELAYED = Operation("d0", Kind.DELAY, "d0-0", 1.0, 1.1, Outcome.OK, log="d0", due=2.0)
HALF = Operation("x0", Kind.HALF, "x0-0", 1.0, 1.1, Outcome.OK, log="x0")


def _poll(queue: str, log: list[tuple[int, str]]) -> Operation:
    """A reader is shown all of it."""
    return Operation("tail", Kind.POLL, "", 3.0, 3.1, Outcome.OK, 0, queue, tuple(log))


@pytest.mark.parametrize(
    ("delayed", "halves", "watched", "expected"),
    [
        ([(0, "d0-0")], [], 99.0, (Word.VALID, [], 0)),
        ([], [], 99.0, (Word.INVALID, ["delayed-lost"], 1)),
        ([], [], 20.0, (Word.UNKNOWN, [], 0)),
        ([(0, "d0-0")], [(0, "x0-0")], 99.0, (Word.INVALID, ["half-visible"], 0)),
        ([(0, "d0-0"), (1, "d0-0")], [], 99.0, (Word.INVALID, ["duplicate"], 0)),
    ],
)
def test_a_run_is_judged_by_what_waited_in_it(
    delayed: list[tuple[int, str]],
    halves: list[tuple[int, str]],
    watched: float,
    expected: tuple[Word, list[str], int],
) -> None:
    logs = {"n0": {"q0": [(0, "p0-0")], "d0": delayed, "x0": halves}}
    read = [_poll("q0", logs["n0"]["q0"]), _poll("d0", delayed)]
    history = [SENT, DELAYED, HALF, *read]
    evidence = Evidence(history, logs, [], [], [], "", 3, 9.0, None, watched=watched)
    judgement = judge_run(evidence, Limits(99.0, 99.0, 1))
    names = [one.name for one in judgement.verdict.anomalies if one.name != "not-converged"]
    word, wanted, lost = expected
    assert (names, judgement.verdict.lost) == (wanted, lost)
    assert bool(judgement.reasons) == (word is Word.UNKNOWN)
    assert judgement.summary["delayed"]["sent"] == judgement.summary["transactional"]["sent"] == 1
    assert judgement.summary["watched_seconds"] == watched


def test_a_clock_is_wrong_while_its_fault_is_on() -> None:
    def fault(kind: str, began: float | None, ahead_ms: int = 0) -> Happened:
        planned = Planned(0, 3.0, kind, Target.RANDOM, 1.0, 7)
        ended = began and began + 1.0
        notes: dict[str, object] = {"wall_ms": ahead_ms}
        return Happened(planned, ("n1",), began, ended, "seen", 0.5, "", notes)

    happened = [fault("clock", 3.0, -500), fault("kill", 6.0), fault("clock", None)]
    assert wrong_clocks(happened, 3) == [Span(2.0, 5.5)]
    # Stamps of the log do not go back: they are wrong until real time is there.
    fast = fault("clock", 3.0, 60_000)
    assert wrong_clocks([fast], 1) == [Span(2.0, 65.5)]
    assert wrong_clocks([fast], 3) == [Span(2.0, 10.5)], "the group bounds one clock"
    other = fault("clock", 4.0, 60_000)
    assert wrong_clocks([fast, other], 3) == [Span(2.0, 65.5), Span(3.0, 66.5)], "but not two"


def test_all_come_though_their_clients_die(tmp_path: Path) -> None:
    load = replace(LOAD, delayed=2, transactional=3)
    clients, begins, replicas, until = asyncio.run(_run(tmp_path, load))
    judged = judge_deferred(
        clients.written.history,
        replicas,
        [],
        begins=begins,
        healed=clients.now(),
        watched=clients.now(),
    )
    assert judged.anomalies == ()
    acked = _acked(clients)
    assert len(acked) > 4 * ACKED
    assert judged.summary["delayed"]["arrived"] >= len(acked)
    held = {value for log in replicas["n0"].values() for _, value in log}
    assert len(held.intersection(_asked(clients))) > 3  # committed by those who were asked
    assert clients.written.awaited <= clients.written.arrived, "the run waited for all"
    assert until > max(op.due for op in acked)


def _acked(clients: ClientProcesses) -> list[Operation]:
    """Delayed messages that were acknowledged."""
    history = clients.written.history
    return [op for op in history if op.kind is Kind.DELAY and op.outcome is Outcome.OK]


def _asked(clients: ClientProcesses) -> list[str]:
    """Values that were committed by those whom a broker asked."""
    history = clients.written.history
    return [op.value for op in history if op.kind is Kind.HALF_COMMIT and "check" in op.process]


async def _more(clients: ClientProcesses) -> None:
    """Wait until more delayed messages are acknowledged."""
    wanted = len(_acked(clients)) + ACKED
    await eventually(lambda: len(_acked(clients)) > wanted, "delayed messages are acknowledged", 60)


async def _run(
    root: Path, load: Workload
) -> tuple[ClientProcesses, int, dict[str, Replica], float]:
    arena = Arena(root / "cluster", hosts=plan.scratch_hosts(3), settings=NODE_SETTINGS)
    async with arena:
        clients = ClientProcesses(arena.cluster.nameserver, TOPIC, load, 1)
        await clients.start()
        for chance in range(3):
            await _more(clients)
            clients.vanish(chance)
        await _more(clients)
        await eventually(lambda: len(_asked(clients)) > 3, "brokers ask how transactions ended", 60)
        await clients.stop()
        until = await clients.arrivals(limit(30.0))
        await arena.settled()
    begins, replicas = await asyncio.to_thread(read_replicas, arena)
    return clients, begins, replicas, until
