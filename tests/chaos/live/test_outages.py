"""What faults tell of nodes out of service, and what follows for acknowledgements in memory."""

from __future__ import annotations

import pytest

from chaos.checkers.levels import Blackout
from chaos.faults import Target
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.judgement import Evidence, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.live.outages import blackouts_of
from chaos.schedule import Planned

NODES = ("n0", "n1", "n2")
CUT = [3.0, 3.2]


def fault(
    kind: str,
    nodes: tuple[str, ...],
    began: float = 3.0,
    ended: float = 4.0,
    *,
    is_cut: bool = False,
) -> Happened:
    target = Target.ALL if nodes == NODES else Target.RANDOM
    notes: dict[str, object] = {"power_gone": CUT} if is_cut else {}
    return Happened(
        Planned(0, began, kind, target, 1.0, 7), nodes, began, ended, "seen", 0.5, "", notes
    )


POWER_OF_ONE = fault("power-loss", ("n1",), is_cut=True)


@pytest.mark.parametrize(
    ("happened", "is_blackout"),
    [
        ([fault("power-all", NODES, is_cut=True)], True),
        ([fault("nats-amnesia-pause", NODES, is_cut=True)], True),
        ([POWER_OF_ONE], False),
        ([fault("kill", NODES)], False),
        ([POWER_OF_ONE, fault("pause", ("n1",))], False),
        ([POWER_OF_ONE, fault("pause", ("n2",), 5.0, 6.0)], True),  # n1 may be behind until then
        ([POWER_OF_ONE, fault("pause", ("n2",), 6.0, 7.0)], False),
        ([POWER_OF_ONE, fault("latency", ("n0",), 1.0, 2.8)], True),
        ([POWER_OF_ONE, fault("client", NODES)], False),
    ],
)
def test_a_blackout_takes_a_majority(happened: list[Happened], is_blackout: bool) -> None:
    assert blackouts_of(happened, 3) == ([Blackout(*CUT)] if is_blackout else [])


def test_two_of_five_are_no_majority() -> None:
    two = [POWER_OF_ONE, fault("pause", ("n2",))]
    assert blackouts_of(two, 5) == []
    assert blackouts_of([*two, fault("cpu", ("n4",))], 5) == [Blackout(*CUT)]


@pytest.mark.parametrize(
    ("level", "happened", "lost", "taken_back"),
    [
        (Level.IN_MEMORY, [fault("power-all", NODES, is_cut=True)], 0, 1),
        (Level.IN_MEMORY, [fault("kill", NODES)], 1, 0),
        (Level.ON_DISK, [fault("power-all", NODES, is_cut=True)], 1, 0),
    ],
)
def test_a_run_counts_what_was_rightly_taken_back(
    level: Level, happened: list[Happened], lost: int, taken_back: int
) -> None:
    history = [
        Operation("p0", Kind.APPEND, "p0-0", 1.0, 1.1, Outcome.OK, 0, "q0"),
        Operation("m0", Kind.APPEND, "m0-0", 2.5, 2.9, Outcome.OK, 1, "q0", level=level),
    ]
    logs = {node: {"q0": [(0, "p0-0")]} for node in NODES}
    evidence = Evidence(history, logs, happened, [], [], "", 3, 9.0, 0.1)
    judgement = judge_run(evidence, Limits(10.0, 10.0, 1))
    assert (judgement.verdict.lost, judgement.verdict.taken_back) == (lost, taken_back)
    assert (judgement.summary["lost"], judgement.summary["taken_back"]) == (lost, taken_back)
    assert judgement.summary["acked_in_memory"] == (level is Level.IN_MEMORY)
    assert judgement.verdict.acked == 2


@pytest.mark.parametrize(("begins", "lost"), [(0, 2), (100, 1), (1000, 0)])
def test_what_was_deleted_is_not_lost(begins: int, lost: int) -> None:
    history = [
        Operation(
            "p0", Kind.APPEND, f"v{n}", n, n + 0.5, Outcome.OK, n, "q0", position=48 + 100 * n
        )
        for n in range(3)
    ]
    logs = {node: {"q0": [(2, "v2")] if begins < 1000 else []} for node in NODES}
    evidence = Evidence(history, logs, [], [], [], "", 3, 9.0, 0.1, begins=begins)
    judgement = judge_run(evidence, Limits(10.0, 10.0, 1))
    assert (judgement.verdict.lost, judgement.summary["log_begins"]) == (lost, begins)


@pytest.mark.parametrize(
    ("stands", "begins", "lost"), [(True, 0, 0), (False, 0, 1), (False, 100, 0), (True, 100, 0)]
)
def test_a_repeat_acknowledged_without_a_place_is_lost_when_it_is_in_no_whole_log(
    stands: bool, begins: int, lost: int
) -> None:
    history = [
        Operation("p0", Kind.APPEND, "old", 0.0, INFINITY, Outcome.INFO, log="q0"),
        Operation("p1", Kind.APPEND, "new", 1.0, 1.5, Outcome.OK, 1, "q0", position=148),
    ]
    log = [(0, "old"), (1, "new")] if stands else [(1, "new")]
    logs = {node: {"q0": log} for node in NODES}
    evidence = Evidence(history, logs, [], [], [], "", 3, 9.0, 0.1, begins=begins, unplaced=["old"])
    judgement = judge_run(evidence, Limits(10.0, 10.0, 1))
    names = [anomaly.name for anomaly in judgement.verdict.anomalies]
    assert names == ["lost-prefix", "offset-hole"] * lost
    assert judgement.summary["acked_without_place"] == ["old"]
