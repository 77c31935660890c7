"""De-duplication of producers: rules R8 and R9, and equality with an obvious table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from dledger.core.types import NO_INDEX, Index
from dledger.errors import Outcome, OutcomeUnknown, SequenceGap
from dledger.producers.runs import RUNS_MAX
from dledger.producers.table import Admission, ProducerTable


def at(number: int) -> Index:
    return Index(number)


def test_r8_a_gap_is_refused_so_that_a_refused_number_never_looks_old() -> None:
    """5 is refused for overload; were 6 stored, the retry of 5 would look like a copy."""
    table = ProducerTable()
    for sequence in range(5):
        table.appended("p", "q", sequence, 1, at(sequence))
    with pytest.raises(SequenceGap) as caught:
        table.check("p", "q", 6)
    assert (caught.value.expected, caught.value.got) == (5, 6)
    assert caught.value.retriable
    assert caught.value.outcome is Outcome.NOT_DONE
    assert table.check("p", "q", 5) == Admission(0, NO_INDEX, NO_INDEX)


def test_r8_a_duplicate_waits_for_its_original() -> None:
    """The original is not committed yet: the answer must wait for its index, not come at once."""
    table = ProducerTable()
    table.appended("p", "q", 0, 3, at(10))
    assert table.check("p", "q", 1) == Admission(1, at(11), at(11))
    table.committed("p", "q", 0, at(10), 0, 3)
    assert table.check("p", "q", 1) == Admission(1, at(11), at(11))


def test_r8_a_retried_batch_completes_a_surviving_prefix() -> None:
    table = ProducerTable()
    table.committed("p", "q", 0, at(7), 0)
    table.committed("p", "q", 1, at(8), 0)
    admission = table.check("p", "q", 0, 5)
    assert admission == Admission(2, at(8), at(7))
    table.appended("p", "q", 2, 3, at(20))
    assert table.check("p", "q", 0, 5) == Admission(5, at(22), at(7))


def test_r8_an_unknown_producer_past_zero_has_an_unknown_outcome() -> None:
    table = ProducerTable()
    with pytest.raises(OutcomeUnknown):
        table.check("gone", "q", 4)
    assert table.check("gone", "q", 0).skip == 0


def test_all_streams_of_a_producer_that_is_forgotten_within_a_turn_are_appended() -> None:
    """Both were checked; others push it out; the first that is appended makes it known again."""
    table = ProducerTable(producers_max=1)
    for stream in ("q", "r"):
        table.committed("p", stream, 0, at(0), 0)
        table.check("p", stream, 1)
    table.committed("other", "q", 0, at(2), 0)
    assert "p" not in table
    for stream in ("q", "r"):
        table.appended("p", stream, 1, 1, at(3))
        assert table.next_sequence("p", stream) == 2
    with pytest.raises(AssertionError):
        table.appended("p", "q", 3, 1, at(5))


def test_a_known_producer_may_not_open_a_stream_in_the_middle() -> None:
    table = ProducerTable()
    table.committed("p", "q", 0, at(0), 0)
    with pytest.raises(SequenceGap):
        table.check("p", "other", 1)
    fresh = ProducerTable()
    fresh.appended("p", "q", 0, 1, at(0))
    with pytest.raises(SequenceGap):
        fresh.check("p", "other", 1)


def test_r9_what_was_not_committed_is_forgotten_when_the_leadership_ends() -> None:
    table = ProducerTable()
    table.committed("p", "q", 0, at(0), 0)
    table.appended("p", "q", 1, 2, at(1))
    assert table.next_sequence("p", "q") == 3
    table.drop_uncommitted()
    assert table.next_sequence("p", "q") == 1
    assert table.check("p", "q", 1).skip == 0


def test_a_duplicate_older_than_the_remembered_runs_still_waits_long_enough() -> None:
    table = ProducerTable()
    for sequence in range(RUNS_MAX + 5):
        table.committed("p", "q", sequence, at(sequence * 10), 0)  # other producers in between
    skip, wait_for, first = table.check("p", "q", 0)
    assert (skip, first) == (1, NO_INDEX)
    assert wait_for >= 0, "some index at or behind the original"
    assert table.check("p", "q", RUNS_MAX).first_index == RUNS_MAX * 10


def test_the_least_recently_used_producer_goes_first_and_whole() -> None:
    table = ProducerTable(producers_max=2)
    table.committed("a", "q", 0, at(0), 0)
    table.committed("b", "q", 0, at(1), 1)
    table.committed("a", "q", 1, at(2), 2)
    table.committed("c", "q", 0, at(3), 3)
    assert [row[0] for row in table.export()] == ["a", "a", "c"]
    with pytest.raises(OutcomeUnknown):
        table.check("b", "q", 1)


def test_streams_and_age_are_bounded_too() -> None:
    table = ProducerTable(streams_max=3)
    for number in range(3):
        table.committed("a", f"q{number}", 0, at(number), 0)
    table.committed("b", "q", 0, at(3), 0)
    assert [row[0] for row in table.export()] == ["b"]
    aged = ProducerTable(idle_ms_max=1000)
    aged.committed("a", "q", 0, at(0), 1)
    aged.committed("b", "q", 0, at(1), 1001)
    assert len(aged) == 2
    aged.committed("b", "q", 1, at(2), 1002)
    assert len(aged) == 1


def test_r8_numbers_that_come_back_have_their_owner() -> None:
    """Others push it out while its message is on the way, which is committed then."""
    table = ProducerTable(producers_max=1)
    table.owned("p", "account-a", 0)
    table.committed("p", "q", 0, at(1), 0)
    table.appended("p", "q", 1, 1, at(2))
    table.owned("other", "account-a", 1)
    assert len(table) == 1
    assert table.owner("p") == "account-a", "a number of it is on the way"
    table.committed("p", "q", 1, at(2), 1)
    assert table.next_sequence("p", "q") == 2
    assert table.owner("p") == "account-a"


def test_r8_an_owner_goes_when_no_number_is_known() -> None:
    """What was on the way is lost with its leadership: the id is free for the next account."""
    table = ProducerTable(producers_max=1)
    table.owned("p", "account-a", 0)
    table.appended("p", "q", 0, 1, at(1))
    table.owned("other", "account-a", 1)
    assert table.owner("p") == "account-a"
    table.drop_uncommitted()
    assert table.owner("p") is None
    table.owned("p", "account-b", 2)
    table.committed("p", "q", 0, at(3), 2)
    assert table.owner("p") == "account-b"


def test_r8_a_flood_of_ids_pushes_out_those_of_its_own_account() -> None:
    """So do streams; ids without an owner are one account's, and age knows no account."""
    table = ProducerTable(producers_max=6, streams_max=8, idle_ms_max=1_000)
    for number in range(2):
        table.owned(f"quiet{number}", "quiet", number)
        table.committed(f"quiet{number}", "q", 0, at(number), number)
    for number in range(3):
        table.committed(f"free{number}", "q", 0, at(10 + number), 2)
    for number in range(20):
        table.owned(f"flood{number}", "flood", 3 + number)
        table.committed(f"flood{number}", "q", 0, at(20 + number), 3 + number)
    known = {row[0] for row in table.export()}
    assert known == {"quiet0", "quiet1", "free1", "free2", "flood18", "flood19"}
    for number in range(20):
        table.committed("flood19", f"q{number}", 0, at(50 + number), 30)
    known = {row[0] for row in table.export()}
    assert known >= {"quiet0", "quiet1", "free1", "free2"}
    table.committed("free1", "q", 1, at(90), 1_500)
    assert {row[0] for row in table.export()} == {"free1"}


def test_r8_no_gap_is_told_in_a_stream_that_was_forgotten() -> None:
    """A gap says "not done", and a client sends again: what may be stored is no gap."""
    table = ProducerTable(producers_max=1)
    for stream in ("q", "r"):
        table.committed("p", stream, 0, at(0), 0)
    table.appended("p", "q", 1, 1, at(2))
    table.committed("other", "q", 0, at(3), 0)
    assert len(table) == 1
    for _ in range(2):  # while the message is on the way, and when it is committed
        with pytest.raises(OutcomeUnknown, match="may be stored"):
            table.check("p", "r", 1)
        with pytest.raises(SequenceGap):
            table.check("p", "q", 3)
        assert table.check("p", "q", 2).skip == 0
        table.committed("p", "q", 1, at(2), 0)
    with pytest.raises(OutcomeUnknown, match="may be stored"):
        table.check("other", "r", 1)
    table.committed("new", "q", 0, at(9), 0)
    with pytest.raises(SequenceGap):
        table.check("new", "r", 1)


def test_r8_who_left_the_departed_is_not_taken_for_new() -> None:
    """They are bounded, too: when one of them was dropped, every id may have a past."""
    table = ProducerTable(producers_max=1)
    for producer in ("p", "a", "b"):
        table.committed(producer, "q", 0, at(0), 0)
        table.committed(producer, "r", 0, at(1), 0)
    table.appended("p", "q", 1, 1, at(6))
    with pytest.raises(OutcomeUnknown):
        table.check("p", "r", 1)
    table.committed("p", "q", 1, at(6), 0)
    with pytest.raises(OutcomeUnknown):
        table.check("p", "r", 1)


def test_r8_a_flood_of_ids_pushes_out_departed_of_its_own_account() -> None:
    table = ProducerTable(producers_max=4, idle_ms_max=1_000)
    for producer in ("quiet0", "quiet1"):
        table.owned(producer, "quiet", 0)
        table.committed(producer, "q", 0, at(0), 0)
        table.appended(producer, "q", 1, 1, at(1))
    for number in range(20):
        table.owned(f"flood{number}", "flood", 2_000)
    for producer in ("quiet0", "quiet1"):
        assert table.owner(producer) == "quiet"
        table.committed(producer, "q", 1, at(1), 2_000)
        assert table.owner(producer) == "quiet"


SMALL = st.tuples(
    st.sampled_from(["send", "send", "commit", "drop"]),
    st.sampled_from(["p0", "p1", "p2", "p3", "p4"]),
    st.sampled_from(["q0", "q1"]),
    st.integers(0, 3),
    st.sampled_from([None, "a", "b"]),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(SMALL, max_size=60), st.integers(1, 3))
def test_r8_no_schedule_calls_a_stored_number_not_done(
    steps: list[tuple[str, str, str, int, str | None]], producers_max: int
) -> None:
    """Producers are pushed out and come back; each is some way behind or ahead of its stream."""
    table, obvious = ProducerTable(producers_max=producers_max), Obvious()
    for kind, producer, stream, back, owner in steps:
        if kind == "commit" and obvious.committed < len(obvious.log):
            row = obvious.log[obvious.committed]
            table.committed(*row, at(obvious.committed), 0)
            obvious.committed += 1
            if owner is not None and table.owner(row[0]) is None:
                table.owned(row[0], owner, 0)
        elif kind == "drop":
            table.drop_uncommitted()
            del obvious.log[obvious.committed :]
        elif kind == "send":
            stored = set(obvious.numbers(producer, stream))
            sequence = max(0, len(stored) + 1 - back)
            try:
                skip, *_ = table.check(producer, stream, sequence)
            except SequenceGap:
                assert sequence not in stored, "stored, and told to be not done"
                continue
            except OutcomeUnknown:
                continue
            if skip:
                assert sequence in stored, "acknowledged, and not stored"
            elif sequence or sequence not in stored:  # the very first number looks like a new one
                assert sequence not in stored, "stored twice"
                table.appended(producer, stream, sequence, 1, at(len(obvious.log)))
                obvious.log.append((producer, stream, sequence))


def test_a_later_batch_follows_any_number_and_only_from_its_first_row() -> None:
    """Producers that number by batches: what is missing within a batch is still a gap."""
    table, third = ProducerTable(), 3 * BATCH_ROWS_MAX
    assert table.check("batch/q/0", "q", third, 5) == Admission(0, NO_INDEX, NO_INDEX)
    table.appended("batch/q/0", "q", third, 5, at(10))
    table.committed("batch/q/0", "q", third, at(10), 0, 5)
    assert table.check("batch/q/0", "q", third, 7) == Admission(5, at(14), at(10))
    with pytest.raises(SequenceGap):
        table.check("batch/q/0", "q", third + 6)
    fourth = third + BATCH_ROWS_MAX
    with pytest.raises(SequenceGap):
        table.check("batch/q/0", "q", fourth + 1)
    assert table.check("batch/q/0", "q", fourth).skip == 0
    table.appended("batch/q/0", "q", fourth, 2, at(20))
    assert table.check("batch/q/0", "q", fourth, 3) == Admission(2, at(21), at(20))
    assert table.check("batch/q/0", "q", third, 5) == Admission(5, at(14), at(10))
    with pytest.raises(OutcomeUnknown):
        table.check("batch/other/0", "q", fourth + 1)
    table.appended("plain", "q", 0, 1, at(30))
    with pytest.raises(SequenceGap):
        table.check("plain", "q", fourth)


class Obvious:
    """The rule as a list: every entry that was appended, and how far it is committed."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.committed = 0

    def numbers(self, producer: str, stream: str) -> list[int]:
        return [row[2] for row in self.log if row[:2] == (producer, stream)]


STEP = st.tuples(
    st.sampled_from(["send", "commit", "drop"]),
    st.sampled_from(["p0", "p1"]),
    st.sampled_from(["q0", "q1"]),
    st.integers(0, 6),
    st.integers(1, 3),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_no_schedule_stores_a_number_twice_or_leaves_a_gap(
    steps: list[tuple[str, str, str, int, int]],
) -> None:
    table, obvious = ProducerTable(), Obvious()
    for kind, producer, stream, sequence, count in steps:
        if kind == "commit" and obvious.committed < len(obvious.log):
            row = obvious.log[obvious.committed]
            table.committed(*row, at(obvious.committed), 0)
            obvious.committed += 1
        elif kind == "drop":
            table.drop_uncommitted()
            del obvious.log[obvious.committed :]
        elif kind == "send":
            try:
                skip, wait_for, first = table.check(producer, stream, sequence, count)
            except (SequenceGap, OutcomeUnknown):
                assert sequence > len(obvious.numbers(producer, stream))
                continue
            for number in range(sequence, sequence + skip):
                assert obvious.log.index((producer, stream, number)) <= wait_for
            if skip and first != NO_INDEX:
                assert obvious.log[first] == (producer, stream, sequence)
            base = len(obvious.log)
            table.appended(producer, stream, sequence + skip, count - skip, at(base))
            obvious.log += [
                (producer, stream, number) for number in range(sequence + skip, sequence + count)
            ]
        for key in {row[:2] for row in obvious.log}:
            numbers = obvious.numbers(*key)
            assert numbers == list(range(len(numbers)))
            assert table.next_sequence(*key) == len(numbers)
