"""What a run is judged by beside its logs: each demand turns red, or is listed as not checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chaos.checkers.blind import UNSEEN
from chaos.checkers.copies import Copies, Copy
from chaos.checkers.elections import Seen
from chaos.checkers.membership import Change
from chaos.checkers.verdict import Word
from chaos.faults import Target
from chaos.history import INFINITY, Kind, Level, Operation, Outcome
from chaos.live.judgement import Evidence, Judgement, Limits, judge_run
from chaos.live.nemesis import Happened
from chaos.schedule import Planned

NODES = ("n0", "n1", "n2")
LIMITS = Limits(10.0, 10.0, 1)
EQUAL = Copies(
    0, 0, {node: Copy([b"x" * 16], {}) for node in NODES}, changes=[Change(-1, frozenset(NODES))]
)


def append(n: int, at: float, queue: str = "q0") -> Operation:
    return Operation(
        "p0", Kind.APPEND, f"v{n}", at, at + 0.01, Outcome.OK, n, queue, position=100 * n
    )


def poll(at: float, *places: int, process: str = "tail") -> Operation:
    values = tuple((n, f"v{n}") for n in places)
    return Operation(
        process, Kind.POLL, "", at, at + 0.01, Outcome.OK, places[0], "q0", values=values
    )


def seek(at: float, place: int) -> Operation:
    return Operation("r0", Kind.SEEK, "", at, at + 0.1, Outcome.OK, place, "q0")


def judged(
    history: Sequence[Operation],
    places: Sequence[int] | None = None,
    limits: Limits = LIMITS,
    read_up: bool = True,
    **fields: Any,
) -> Judgement:
    """`places`: of the messages that every replica has; by default all that were sent.

    `read_up`: a reader was shown the end of the queue, whatever else was read.
    """
    ended = max(op.completed for op in history)
    sent = [op.offset for op in history if op.kind is Kind.APPEND]
    log = [(n, f"v{n}") for n in (sent if places is None else places)]
    shown = [place for op in history if op.kind is Kind.POLL for place, _ in op.values]
    rest = [n for n, _ in log if n > max(shown, default=-1)]
    if read_up and rest:
        history = [*history, poll(ended, *rest, process="end")]
    evidence = Evidence(
        history, {node: {"q0": log} for node in NODES}, [], [], [], "", 3, ended, 0.1, EQUAL
    )
    return judge_run(replace(evidence, **fields), limits)


def names(found: Judgement) -> set[str]:
    return {anomaly.name for anomaly in found.verdict.anomalies}


def test_a_mistake_in_a_nodes_log_is_an_anomaly() -> None:
    history = [append(0, 0.0), poll(1.0, 0)]
    assert judged(history).word is Word.VALID
    found = judged(history, mistakes=["n0: stopped by a mistake: KeyError: 1"])
    assert (found.word, names(found)) == (Word.INVALID, {"mistake"})


# ---- what was deleted ----------------------------------------------------------------------------


@pytest.mark.parametrize(("read", "unread"), [((), 3), ((0, 1), 1), ((0, 1, 2), 0)])
def test_what_was_deleted_counts_when_somebody_was_shown_it(
    read: tuple[int, ...], unread: int
) -> None:
    history = [append(n, n * 0.1) for n in range(4)] + ([poll(1.0, *read)] if read else [])
    found = judged(history, [3], begins=300)
    assert found.summary["acked_deleted_unread"] == unread
    assert found.verdict.lost == 0
    assert found.word is (Word.UNKNOWN if unread else Word.VALID)
    if unread:
        (reason,) = found.reasons
        assert f"{unread} acknowledged messages were deleted" in reason
        assert "larger disks" in reason


def test_a_poll_of_another_value_is_no_proof() -> None:
    other = replace(poll(1.0, 0), values=((0, "v9"),))
    found = judged([append(0, 0.0), append(1, 0.1), other], [1], begins=100)
    assert found.summary["acked_deleted_unread"] == 1


def test_a_message_that_all_readers_passed_by_is_found() -> None:
    history = [append(n, n * 0.1) for n in range(4)]
    assert names(judged([*history, poll(1.0, 0, 1, 2, 3)])) == set()
    passed = [*history, poll(1.0, 0, 1), poll(1.1, 3, process="r0")]
    assert names(judged(passed)) == {"never-read"}


# ---- readers that were sent on -------------------------------------------------------------------


def told(*rows: tuple[float, int | None]) -> list[Seen]:
    return [Seen(time, "n0", 1, False, "", 9, 9, 0, begins) for time, begins in rows]


def test_a_reader_is_sent_on_over_what_was_deleted_only() -> None:
    history = [append(n, n * 0.1) for n in range(4)] + [poll(1.0, 0, 1), seek(2.0, 3)]
    fine = judged([*history, poll(1.5, 2)], [3], begins=300, trace=told((1.0, 0), (2.5, 300)))
    assert names(fine) == set()
    assert fine.word is Word.VALID
    early = judged([*history, poll(1.5, 2)], trace=told((1.0, 0), (2.5, 0), (9.0, 300)))
    assert names(early) == {"poll-skip"}


def test_nodes_that_do_not_tell_where_logs_begin_leave_it_unchecked() -> None:
    history = [append(n, n * 0.1) for n in range(4)] + [poll(1.0, 0, 1, 2), seek(2.0, 3)]
    found = judged(history, trace=told((1.0, None)))
    assert names(found) == set()
    assert "no node told" in found.summary["not_checked"]["poll-skip"]


# ---- work under faults ---------------------------------------------------------------------------


def fault(number: int, kind: str, began: float, seconds: float) -> Happened:
    target = Target.RANDOM
    planned = Planned(number, began, kind, target, seconds, 7)
    return Happened(planned, ("n1",), began, began + seconds, "seen", 0.0)


def steady(seconds: float, rate: float, *silent: tuple[float, float]) -> list[Operation]:
    times = [n / rate for n in range(int(seconds * rate))]
    kept = [at for at in times if not any(a <= at < b for a, b in silent)]
    return [append(n, at) for n, at in enumerate(kept)]


def test_six_messages_in_a_minute_are_no_progress() -> None:
    few = steady(60.0, 0.12)
    assert "no-progress" in names(judged(few, limits=replace(LIMITS, rate=200.0)))
    assert names(judged(steady(60.0, 20.0), limits=replace(LIMITS, rate=200.0))) == set()


def test_a_kind_of_fault_that_stops_all_work_is_found_though_each_is_short() -> None:
    begins = (5.0, 15.0, 25.0, 35.0, 45.0)
    pauses = [fault(n, "pause", at, 4.0) for n, at in enumerate(begins)]
    history = steady(60.0, 20.0, *((at, at + 4.0) for at in begins))
    found = judged(history, happened=pauses)
    assert names(found) == {"no-progress"}
    (one,) = found.verdict.anomalies
    assert one.detail.startswith("pause: 0 acknowledged appends in 20.0 s")
    assert names(judged(steady(60.0, 20.0), happened=pauses)) == set()


def test_all_nodes_at_once_may_stop_it() -> None:
    begins = (5.0, 15.0, 25.0, 35.0, 45.0)
    cuts = [
        replace(one, planned=replace(one.planned, target=Target.ALL), nodes=NODES)
        for one in (fault(n, "power-all", at, 4.0) for n, at in enumerate(begins))
    ]
    history = steady(60.0, 20.0, *((at, at + 4.0) for at in begins))
    assert names(judged(history, happened=cuts)) == set()


def test_a_run_that_is_too_short_is_not_checked_for_it() -> None:
    unchecked = judged(steady(5.0, 20.0)).summary["not_checked"]
    assert {"unavailable", "no-progress"} <= unchecked.keys()
    assert "no-progress" not in judged(steady(60.0, 20.0)).summary["not_checked"]


# ---- changes of the group ------------------------------------------------------------------------


def leader(time: float, commit: int, configuration: int, no_op: int = 1) -> Seen:
    return Seen(time, "n0", 1, True, "n0", commit, 50, 0, 0, no_op, configuration)


def with_changes(trace: Sequence[Seen], *voters: str) -> Judgement:
    every = [Change(10 * n - 1, frozenset(names.split())) for n, names in enumerate(voters)]
    return judged([append(0, 0.0)], trace=trace, copies=replace(EQUAL, changes=every))


def test_changes_of_the_group_are_judged() -> None:
    three, two = "n0 n1 n2", "n0 n1"
    fine = with_changes([leader(1.0, 9, 9), leader(2.0, 19, 19)], three, two, three)
    assert names(fine) == set()
    assert not {"membership-split", "two-changes"} & fine.summary["not_checked"].keys()
    split = with_changes([leader(1.0, 9, 9)], three, "n0")
    assert names(split) == {"membership-split"}
    beside = with_changes([leader(1.0, 5, 19)], three, two, three)
    assert names(beside) == {"two-changes"}
    new = with_changes([leader(1.0, 5, 19, no_op=20)], three, two, three)
    assert names(new) == set()  # what it has not heard of yet may be committed


def test_each_change_must_be_told_of_by_its_leader() -> None:
    three, two = "n0 n1 n2", "n0 n1"
    every = [Change(-1, frozenset(three.split())), Change(9, frozenset(two.split()))]
    fields: dict[str, Any] = {"copies": replace(EQUAL, changes=every)}
    told_of = leader(1.0, 5, 9)._replace(changing=(9,))
    fine = judged([append(0, 0.0)], told=[told_of], **fields)
    assert names(fine) == set()
    assert "two-changes" not in fine.summary["not_checked"]
    missed = judged([append(0, 0.0)], told=[told_of._replace(configuration=7)], **fields)
    assert "entry 9" in missed.summary["not_checked"]["two-changes"]
    beside = judged([append(0, 0.0)], told=[told_of._replace(changing=(8, 9))], **fields)
    assert names(beside) == {"two-changes"}


def test_a_group_that_never_changed_is_not_checked() -> None:
    unchecked = judged([append(0, 0.0)], read_up=False).summary["not_checked"]
    assert "never changed" in unchecked["membership-split"]
    without = judged([append(0, 0.0)], copies=replace(EQUAL, changes=None))
    assert "were not read" in without.summary["not_checked"]["two-changes"]


def test_what_nobody_did_is_not_checked() -> None:
    unchecked = judged([append(0, 0.0)], read_up=False).summary["not_checked"]
    assert {"stale-read", "never-read", "offset-ahead", "vote-changed"} <= unchecked.keys()
    assert {"delayed-lost", "committed-lost", "commit-stuck"} <= unchecked.keys()
    voted = judged([append(0, 0.0), poll(1.0, 0)], trace=[leader(1.0, 5, -1)])
    assert not {"vote-changed", "never-read"} & voted.summary["not_checked"].keys()


# ---- to the end of every queue -------------------------------------------------------------------


def told_end(at: float, place: int) -> Operation:
    """The tail reader asked there and got nothing."""
    return Operation("tail", Kind.POLL, "", at, at + 0.01, Outcome.OK, place, "q0")


def test_what_lies_behind_all_that_was_shown_is_not_valid() -> None:
    history = [append(n, n * 0.1) for n in range(9)] + [poll(1.0, 0)]
    found = judged(history, read_up=False)
    assert (found.word, names(found)) == (Word.UNKNOWN, set())
    assert found.reasons[0].startswith("8 acknowledged messages at the ends of queues")


def test_a_reader_that_was_told_too_early_that_nothing_follows_is_an_anomaly() -> None:
    sent = [append(n, n * 0.1) for n in range(4)]
    late = [poll(1.0, 0, 1), told_end(2.0, 2)]
    found = judged(sent + late, read_up=False)
    assert (found.word, names(found)) == (Word.INVALID, {"never-read"})
    assert len(found.verdict.anomalies) == 2
    early = [poll(0.16, 0, 1), told_end(0.18, 2), poll(1.0, 2, 3), told_end(2.0, 4)]
    assert judged(sent + early, read_up=False).word is Word.VALID


def test_nobody_was_promised_what_is_in_memory_or_unknown() -> None:
    kept = append(0, 0.0)
    fast = replace(append(1, 0.1), level=Level.IN_MEMORY)
    unsure = replace(append(2, 0.2), outcome=Outcome.INFO, completed=INFINITY, offset=-1)
    history = [kept, fast, unsure, poll(1.0, 0), told_end(2.0, 1)]
    found = judged(history, [0, 1, 2], read_up=False, seconds=3.0)
    assert (found.word, names(found)) == (Word.VALID, set())


# ---- queues without holes ------------------------------------------------------------------------


def test_a_queue_counts_its_messages() -> None:
    history = [append(n, n * 0.1) for n in (0, 1, 3)]
    found = judged(history)
    assert names(found) == {"offset-hole"}
    assert len(found.verdict.anomalies) == 1, "three replicas say the same"
    assert names(judged([append(n, n * 0.1) for n in (1, 2)])) == {"offset-hole"}
    assert names(judged([append(n, n * 0.1) for n in (1, 2)], begins=50)) == set()


# ---- reads of an end that nobody could look up ---------------------------------------------------


def blind(at: float, end: int) -> Operation:
    return Operation("x0", Kind.READ, UNSEEN, at, at + 0.01, Outcome.OK, end, "q0")


@pytest.mark.parametrize(
    ("end", "expected"), [(3, set()), (2, {"stale-read"}), (4, {"precommitted-read"})]
)
def test_an_end_that_nobody_can_see_is_judged(end: int, expected: set[str]) -> None:
    history = [append(n, n * 0.1) for n in range(3)] + [blind(1.0, end)]
    assert names(judged(history)) == expected


def test_what_was_deleted_before_it_was_looked_up_says_nothing() -> None:
    history = [append(n, n * 0.1) for n in range(4)] + [poll(0.5, 0, 1, 2), blind(0.25, 2)]
    assert judged(history, [3], begins=300).word is Word.VALID


# ---- nothing known is not valid ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.READ, Kind.POLL, Kind.COMMIT, Kind.FETCH])
def test_a_kind_of_operation_that_never_ended_well_proves_nothing(kind: Kind) -> None:
    unsure = Operation("z", kind, "g", 0.5, INFINITY, Outcome.INFO, log="q1")
    history = [append(0, 0.0), poll(0.2, 0), *[unsure] * 10]
    found = judged(history, seconds=1.0)
    expected = Word.VALID if kind is Kind.POLL else Word.UNKNOWN
    assert (found.word, names(found)) == (expected, set())
    assert judged(history[:-1], seconds=1.0).word is Word.VALID
    if kind is not Kind.POLL:
        assert f"none of 10 operations of the kind {kind.value}" in found.reasons[0]


def test_a_repeat_without_a_place_that_may_be_deleted_proves_nothing() -> None:
    history = [append(n, n * 0.1) for n in range(4)] + [poll(1.0, 0, 1, 2, 3)]
    found = judged(history, [3], begins=300, unplaced=["v1", "gone"])
    assert (found.word, names(found)) == (Word.UNKNOWN, set())
    assert found.reasons[0].startswith("1 messages that were acknowledged as repeats")
    assert judged(history, [3], begins=300, unplaced=["v1", "v3"]).word is Word.VALID


@pytest.mark.parametrize(
    ("notes", "error", "why"),
    [
        ({}, "", ""),
        ({}, "OSError: no", " (OSError: no)"),
        ({"unnoticed": "", "overwritten": ""}, "", ""),
        ({"unnoticed": "3 bits", "overwritten": ""}, "", " (unnoticed: 3 bits)"),
        ({"unnoticed": "", "overwritten": "3 bits"}, "", " (overwritten: 3 bits)"),
    ],
)
def test_a_fault_without_effect_leaves_a_run_unknown(
    notes: dict[str, object], error: str, why: str
) -> None:
    planned = Planned(4, 0.1, "bit-rot", Target.FOLLOWER, 0.5, 1)
    one = Happened(planned, ("n1",), 0.1, 0.6, error=error, notes=notes)
    found = judged([append(0, 0.0)], happened=[one])
    assert found.word is Word.UNKNOWN
    assert found.reasons[0] == f"fault 4, bit-rot, had no effect that was seen{why}"


def test_faults_that_never_began_are_one_reason() -> None:
    """A node that does not come back ends a run of hundreds of them."""
    planned = [Planned(n, 1.0 + n, "kill", Target.FOLLOWER, 0.5, 1) for n in range(9)]
    began = Happened(planned[0], ("n1",), 1.0, 1.5, seen="killed")
    found = judged([append(0, 0.0)], happened=[began, *map(Happened, planned[1:])])
    assert found.word is Word.UNKNOWN
    assert found.reasons[0] == "8 of 9 faults had not begun when it ended"
    assert not any("no effect" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("breaks", "name"), [({}, "vote-changed"), ({"breaks": "amnesia"}, "amnesia")]
)
def test_what_a_driver_saw_a_node_do_is_an_anomaly(breaks: dict[str, object], name: str) -> None:
    planned = Planned(0, 0.1, "wipe", Target.FOLLOWER, 0.5, 1)
    notes = {"broken": "it went on"} | breaks
    one = Happened(planned, ("n1",), 0.1, 0.6, notes=notes)
    found = judged([append(0, 0.0)], happened=[one])
    assert (found.word, names(found)) == (Word.INVALID, {name})
