"""Consumer offsets: one delta record a second per group at most, nothing logged twice (R25)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.core import offsets
from cluster.core.internal_topics import OffsetsCommitted, checked_record
from cluster.core.offsets import HEAD_SIZE_MAX, ROW_SIZE_MAX, OffsetCommits, OffsetTable, _Group
from cluster.core.topics import GROUP_LENGTH_MAX, QUEUES_MAX, RETRY_PREFIX


def test_commits_of_one_second_become_one_record() -> None:
    table = OffsetTable()
    commits = OffsetCommits(table)
    commits.commit("g", "T", 0, 5)
    first = commits.take_due(10.0)
    assert first == [OffsetsCommitted("g", {"T": {0: 5}})]
    table.replay(first[0])
    commits.settled("g", ok=True)
    for offset in range(6, 100):
        commits.commit("g", "T", 0, offset)
        commits.commit("g", "T", 1, offset)
        assert commits.take_due(10.5) == [], "one record per group and second"
    assert commits.deadline() == 11.0
    assert commits.take_due(11.0) == [OffsetsCommitted("g", {"T": {0: 99, 1: 99}})]


def test_what_one_record_has_no_space_for_goes_with_the_next_one() -> None:
    table = OffsetTable()
    commits = OffsetCommits(table, record_size_max=HEAD_SIZE_MAX + 2 * ROW_SIZE_MAX)
    for queue in range(5):
        commits.commit("g", "T", queue, 7, queue)
    for now, queues in ((1.0, (0, 1)), (2.0, (2, 3))):
        taken = commits.take_due(now)
        assert taken == [OffsetsCommitted("g", {"T": dict.fromkeys(queues, 7)})]
        table.replay(taken[0])
        assert commits.settled("g", ok=True) == [], "those who wait are told behind the last one"
        assert commits.deadline() == now + 1.0
    assert commits.flush("g", "reader")
    assert commits.take_due(2.0) == [OffsetsCommitted("g", {"T": {4: 7}})]
    assert commits.settled("g", ok=True) == [0, 1, 2, 3, 4, "reader"]
    assert (commits.waiters, commits.outstanding()) == (0, [])


def test_no_row_is_larger_than_its_share_of_a_record() -> None:
    group, topic = "g" * GROUP_LENGTH_MAX, RETRY_PREFIX + "g" * GROUP_LENGTH_MAX
    for count in (1, 2, 100):
        rows = {f"{topic[:-2]}{at:02}": {QUEUES_MAX: (1 << 63) - 1} for at in range(count)}
        record = checked_record(OffsetsCommitted(group, rows))
        assert len(record.body) <= HEAD_SIZE_MAX + count * ROW_SIZE_MAX


class Watched(_Group):
    """Counts how often anything of any group is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Watched.looks += 1
        return super().__getattribute__(name)


def looks_of_commits(groups: int) -> int:
    """How often groups are looked at by 20 commits and records of one, while others wait."""
    commits = OffsetCommits(OffsetTable())
    for number in range(groups):
        commits.commit(f"g{number}", "T", 0, 1)
    for change in commits.take_due(1.0):
        commits.settled(change.group, ok=True)
        commits.commit(change.group, "T", 0, 2)
    Watched.looks = 0
    for number in range(20):
        commits.commit("g0", "T", 0, 3 + number)
        assert commits.deadline() == 2.0
        commits.flush("g0")
        assert commits.deadline() == float("-inf")
        assert [change.group for change in commits.take_due(1.5)] == ["g0"]
        commits.settled("g0", ok=True)
        assert commits.deadline() == (2.0 if groups > 1 else None)
        commits.commit("g0", "T", 0, 2)
    return Watched.looks


def test_a_commit_looks_at_its_own_group_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """And at the one that is due first."""
    monkeypatch.setattr(offsets, "_Group", Watched)
    few, many = looks_of_commits(3), looks_of_commits(3000)
    assert 0 < many <= few


def test_places_of_groups_in_the_queue_do_not_pile_up() -> None:
    """A wish that comes and goes, within a second, has one place; a flush has one more."""
    table = OffsetTable()
    commits = OffsetCommits(table)
    commits.commit("g", "T", 0, 1)
    for change in commits.take_due(1.0):
        table.replay(change)
    commits.settled("g", ok=True)
    for _ in range(100):
        commits.commit("g", "T", 0, 2)
        commits.commit("g", "T", 0, 1)
        commits.commit("g", "T", 0, 2)
        commits.flush("g")
    assert len(commits._queue) == 2
    assert [change.group for change in commits.take_due(1.0)] == ["g"]
    assert commits.deadline() is None
    assert commits._queue == []


def test_records_of_several_groups_come_in_the_order_of_their_first_commits() -> None:
    commits = OffsetCommits(OffsetTable())
    for group in "cab":
        commits.commit(group, "T", 0, 1)
    commits.flush("b")
    assert [change.group for change in commits.take_due(1.0)] == ["c", "a", "b"]


def test_groups_do_not_wait_for_each_other() -> None:
    commits = OffsetCommits(OffsetTable())
    commits.commit("a", "T", 0, 1)
    assert [change.group for change in commits.take_due(1.0)] == ["a"]
    commits.commit("b", "T", 0, 1)
    assert [change.group for change in commits.take_due(1.1)] == ["b"]


def test_what_the_log_says_already_is_not_logged() -> None:
    table = OffsetTable()
    table.replay(OffsetsCommitted("g", {"T": {0: 5}}))
    commits = OffsetCommits(table)
    assert not commits.commit("g", "T", 0, 5)
    assert commits.take_due(9.0) == []
    commits.commit("g", "T", 0, 6)
    assert not commits.commit("g", "T", 0, 5), "the wish went back to what is logged"
    assert commits.take_due(9.0) == []


def test_going_back_to_what_is_logged_still_answers_who_waits() -> None:
    table = OffsetTable()
    table.replay(OffsetsCommitted("g", {"T": {0: 5}}))
    commits = OffsetCommits(table)
    assert commits.commit("g", "T", 0, 6, "waits")
    commits.commit("g", "T", 0, 5)
    assert len(commits.take_due(9.0)) == 1
    assert commits.settled("g", ok=True) == ["waits"]


def test_the_newest_offset_is_the_wish_then_the_record_in_flight_then_what_is_logged() -> None:
    table = OffsetTable()
    commits = OffsetCommits(table)
    assert commits.newest("g", "T", 0) is None
    table.replay(OffsetsCommitted("g", {"T": {0: 5}}))
    assert commits.newest("g", "T", 0) == 5
    commits.commit("g", "T", 0, 7)
    assert commits.newest("g", "T", 0) == 7
    commits.take_due(9.0)
    assert commits.newest("g", "T", 0) == 7
    commits.commit("g", "T", 0, 6)
    assert (commits.newest("g", "T", 0), commits.newest("g", "T", 1)) == (6, None)


def test_a_record_in_flight_answers_an_equal_commit() -> None:
    commits = OffsetCommits(OffsetTable())
    commits.commit("g", "T", 0, 5, "first")
    commits.take_due(1.0)
    assert commits.commit("g", "T", 0, 5, "second")
    assert commits.settled("g", ok=True) == ["first", "second"]
    assert commits.waiters == 0


def test_a_flush_does_not_wait_for_the_second() -> None:
    table = OffsetTable()
    commits = OffsetCommits(table)
    commits.commit("g", "T", 0, 1)
    for change in commits.take_due(1.0):
        table.replay(change)
    commits.settled("g", ok=True)
    commits.commit("g", "T", 0, 2)
    assert commits.take_due(1.1) == []
    assert commits.flush("g", "reader")
    assert commits.take_due(1.1) == [OffsetsCommitted("g", {"T": {0: 2}})]
    assert commits.settled("g", ok=True) == ["reader"]
    table.replay(OffsetsCommitted("g", {"T": {0: 2}}))
    assert not commits.flush("g", "reader"), "nothing is outstanding"


def test_a_lost_leadership_tells_everybody_who_waits() -> None:
    commits = OffsetCommits(OffsetTable())
    commits.commit("g", "T", 0, 1, "a")
    commits.take_due(1.0)
    commits.commit("g", "T", 0, 2, "b")
    assert commits.drop() == ["a", "b"]
    assert commits.deadline() is None
    assert commits.waiters == 0


def test_a_refused_record_forgets_the_wishes_and_tells() -> None:
    commits = OffsetCommits(OffsetTable())
    commits.commit("g", "T", 0, 1, "a")
    commits.take_due(1.0)
    commits.commit("g", "T", 0, 2, "b")
    assert sorted(commits.settled("g", ok=False)) == ["a", "b"]
    assert commits.take_due(99.0) == []


def test_a_record_refused_in_a_move_is_written_again_with_newer_wishes() -> None:
    """The move comes to nothing and the node leads on: nobody else writes what it was told."""
    commits = OffsetCommits(OffsetTable())
    commits.commit("g", "T", 0, 1, "a")
    commits.commit("g", "T", 1, 5)
    commits.flush("g")
    commits.take_due(1.0)
    commits.commit("g", "T", 0, 2, "b")
    commits.refused("g")
    assert commits.take_due(1.5) == [], "a log that refuses is not asked in every turn"
    assert commits.take_due(2.0) == [OffsetsCommitted("g", {"T": {0: 2, 1: 5}})]
    assert commits.waiters == 2
    assert commits.settled("g", ok=True) == ["a", "b"]


Step = st.tuples(
    st.sampled_from(["commit", "take", "settle", "flush", "refuse"]),
    st.integers(0, 2),
    st.integers(0, 4),
)


@given(st.lists(Step, max_size=60))
def test_the_log_ends_with_what_was_committed_last(steps: list[tuple[str, int, int]]) -> None:
    """However commits, records and answers interleave, the last wish of each queue is logged."""
    table = OffsetTable()
    commits = OffsetCommits(table)
    wanted: dict[int, int] = {}
    in_flight: OffsetsCommitted | None = None
    now = 0.0
    waiting = answered = 0
    for kind, queue, offset in [*steps, ("end", 0, 0), ("end", 0, 0)]:
        now += 0.4
        if kind == "commit":
            wanted[queue] = offset
            waiting += commits.commit("g", "T", queue, offset, object())
        if kind == "flush":
            waiting += commits.flush("g", object())
        if kind in ("settle", "end") and in_flight is not None:
            table.replay(in_flight)
            in_flight = None
            answered += len(commits.settled("g", ok=True))
        if kind == "refuse" and in_flight is not None:
            in_flight = None
            commits.refused("g")
        if kind == "end":
            now += 2.0
        if kind in ("take", "end"):
            due = commits.take_due(now)
            assert len(due) <= 1
            if due:
                assert in_flight is None, "one record in flight per group"
                in_flight = due[0]
    if in_flight is not None:
        table.replay(in_flight)
        answered += len(commits.settled("g", ok=True))
    assert {q: table.get("g", "T", q) for q in wanted} == wanted
    assert answered == waiting
    assert commits.waiters == 0
