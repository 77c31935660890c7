"""Numbers that no honest peer sends are refused before anything comes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from dledger.core.configuration import Configuration
from dledger.core.messages import (
    AppendEntries,
    AppendReply,
    DiskReport,
    Heartbeat,
    HeartbeatReply,
    Message,
    RangeReply,
    RangeRequest,
    ReadIndexReply,
    ReadIndexRequest,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import DiskHealth, EntryId, Index, NodeId, Term, TermRun
from dledger.errors import MalformedFrame
from dledger.wire.bounds import _NUMBERS, NUMBER_END, TERM_STEP_MAX, check_numbers

N1, OWN = NodeId("n1"), Term(7)
ENTRY = EntryId(Term(3), Index(5))
RUNS = (TermRun(Term(7), Index(6)),)
GOOD: list[Any] = [
    VoteRequest(N1, Term(8), ENTRY, True),
    VoteReply(N1, Term(7), Term(7), True, False),
    AppendEntries(N1, Term(7), ENTRY, Index(6), Index(-1), RUNS, 48, 0, 1, (b"x",)),
    AppendReply(N1, Term(7), True, Index(5), Index(6), Index(6), ENTRY),
    SnapshotChunk(N1, Term(7), ENTRY, Configuration(()), 0),
    SnapshotReply(N1, Term(7), Index(-1), 0),
    Heartbeat(N1, Term(7), Index(6), 1),
    HeartbeatReply(N1, Term(7), 1, Index(6), Index(6)),
    TimeoutNow(N1, Term(7)),
    RangeRequest(N1, 1 << 62, ENTRY, Index(6), 100),
    RangeReply(N1, 1 << 62, ENTRY, Index(6), RUNS, 48, 0, 1, (b"x",)),
    ReadIndexRequest(N1, Term(7), 1 << 62),
    ReadIndexReply(N1, Term(7), 1 << 62, Index(6)),
    DiskReport(N1, Term(7), DiskHealth.GOOD, 0.1),
]
# What is no term, index or address: ids and rounds of the sender's own, sizes of fields.
NO_NUMBERS = {"request_id", "round", "read_id", "size_max", "chain_crc", "prev_chain_crc", "crc"}
EXCEPTIONS = {("AppendEntries", "size"), ("RangeReply", "size")}  # what came, not what is said


def test_every_message_is_looked_at() -> None:
    kinds = set(get_args(Message))
    assert set(_NUMBERS) == kinds == {type(message) for message in GOOD}


def _changes(message: Any) -> list[tuple[str, Any]]:
    """Every number of it, made absurd."""
    found: list[tuple[str, Any]] = []
    for name in type(message).__match_args__:
        value = getattr(message, name)
        if name in NO_NUMBERS or (type(message).__name__, name) in EXCEPTIONS:
            continue
        for absurd in (NUMBER_END, (1 << 63) - 1, -2, -(1 << 63)):
            if type(value) is int:
                found.append((name, absurd))
            elif isinstance(value, EntryId):
                found.append((name, value._replace(term=absurd)))
                found.append((name, value._replace(index=absurd)))
    return found


@pytest.mark.parametrize("message", GOOD, ids=lambda message: type(message).__name__)
def test_each_absurd_number_is_refused(message: Any) -> None:
    check_numbers(message, OWN)
    changes = _changes(message)
    assert changes
    for name, value in changes:
        with pytest.raises(MalformedFrame, match=r"no log reaches|claims term"):
            check_numbers(replace(message, **{name: value}), OWN)


@pytest.mark.parametrize("message", GOOD, ids=lambda message: type(message).__name__)
def test_a_term_far_beyond_one_s_own_is_refused(message: Any) -> None:
    if not hasattr(message, "term"):
        return
    check_numbers(replace(message, term=Term(OWN + TERM_STEP_MAX)), OWN)
    with pytest.raises(MalformedFrame, match="n1 claims term"):
        check_numbers(replace(message, term=Term(OWN + TERM_STEP_MAX + 1)), OWN)


def test_entries_of_a_term_to_come_are_refused() -> None:
    append = next(message for message in GOOD if isinstance(message, AppendEntries))
    with pytest.raises(MalformedFrame, match="a term 8 to come"):
        check_numbers(replace(append, runs=(TermRun(Term(8), Index(6)),)), OWN)
    reply = next(message for message in GOOD if isinstance(message, RangeReply))
    with pytest.raises(MalformedFrame, match="to come"):
        check_numbers(replace(reply, runs=(TermRun(Term(NUMBER_END), Index(6)),)), OWN)
