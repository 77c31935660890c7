"""What faults tell of nodes out of service, and what follows for acknowledgements in memory."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from chaos.checkers.levels import Blackout
from chaos.faults import Target
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.evidence_rows import fault as fault_row
from chaos.live.judgement import Evidence, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.live.outages import blackouts_of, whole_spans, windows_by_fault, windows_of
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


# ---- courses that leave a majority whole ---------------------------------------------------------


def course(kind: str, began: float, ended: float, *whole: list[float | None]) -> Happened:
    """With half a second of recovery, as `fault` has it."""
    notes: dict[str, object] = {"majority_whole": list(whole)} if whole else {}
    return replace(fault(kind, NODES, began, ended), notes=notes)


def judged_after(silent: tuple[float, float], *happened: Happened) -> set[str]:
    """The anomalies of a minute in which nobody acknowledged in `silent`."""
    times = [n / 10 for n in range(600)]
    kept = [at for at in times if not silent[0] <= at < silent[1]]
    history = [
        Operation("p0", Kind.APPEND, f"v{n}", at, at + 0.01, Outcome.OK, n, "q0")
        for n, at in enumerate(kept)
    ]
    logs = {node: {"q0": [(n, f"v{n}") for n in range(len(kept))]} for node in NODES}
    evidence = Evidence(history, logs, happened, [], [], "", 3, 60.0, 0.1)
    found = judge_run(evidence, Limits(10.0, 10.0, 1))
    return {anomaly.name for anomaly in found.verdict.anomalies}


def test_the_silence_of_a_course_that_keeps_a_majority_is_judged() -> None:
    """As long as the one of `disk-hang-leader` that nobody asked about: 11.2 s."""
    silent = (20.0, 31.2)
    kept = course("disk-hang-leader", 20.0, 31.2, [20.004, None])
    assert judged_after(silent, kept) == {"unavailable"}
    assert judged_after((20.0, 24.0), kept) == set(), "an election is no outage"
    older = course("disk-hang-leader", 20.0, 31.2)
    assert judged_after(silent, older) == set(), "it did not say what it left whole"


def test_only_the_spans_that_are_whole_are_judged() -> None:
    recipe = course("nats-amnesia-pause", 10.0, 50.0, [10.002, 22.0], [35.0, 49.0])
    assert judged_after((22.0, 34.9), recipe) == set(), "nobody was a majority then"
    assert "unavailable" in judged_after((10.5, 21.5), recipe)
    assert "unavailable" in judged_after((36.0, 48.0), recipe)


def test_a_course_that_is_whole_all_along_does_not_cut_the_time_in_two() -> None:
    cut = course("one-edge-cut", 20.0, 23.0, [20.01, None])
    (window,) = windows_of([cut], 3, 60.0)
    assert window[1:] == (0.0, 60.0)
    assert windows_by_fault([cut], 3) == [("one-edge-cut", 20.01, 23.5)]
    blow = [one[1:] for one in windows_of([course("one-edge-cut", 20.0, 23.0)], 3, 60.0)]
    assert blow == [(0.0, 20.0), (23.5, 60.0)]
    assert windows_by_fault([course("one-edge-cut", 20.0, 23.0)], 3) == []


def test_spans_stay_within_their_fault() -> None:
    one = course("vote-then-power-loss", 5.0, 8.0, [4.0, 6.0], [8.4, 20.0], [9.0, 10.0])
    assert whole_spans(one) == [(5.0, 6.0), (8.4, 8.5)]
    assert whole_spans(replace(one, ended=None)) == []
    assert [one[1:] for one in windows_of([one], 3, 9.0)] == [(0.0, 6.0), (8.4, 9.0)]


def test_a_row_with_spans_is_read_and_one_with_nonsense_is_not() -> None:
    row = json.dumps(course("one-edge-cut", 2.0, 3.0, [2.0, 2.5], [2.6, None]).to_fields())
    assert fault_row(row)["majority_whole"] == [[2.0, 2.5], [2.6, None]]
    with pytest.raises(ValueError, match="majority_whole"):
        fault_row(row.replace("[2.0, 2.5]", '"always"'))
