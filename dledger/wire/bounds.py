"""Numbers of peers that no honest peer can send: refused before they reach a rule or a disk. Pure.

A node adopts a higher term that it hears of and writes it down at once (paper 5.1), so one absurd
term would stop a group for good: none above it is left. No cluster elects 2^32 times between two
messages, and 2^60 entries of a byte fill no disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final

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
from dledger.core.types import Term
from dledger.errors import MalformedFrame

NUMBER_END: Final = 1 << 60
TERM_STEP_MAX: Final = 1 << 32

_Numbers = Callable[[Any], Iterable[int]]
_PREV = ("prev.term", "prev.index")
_NUMBERS: Final[dict[type, _Numbers]] = {
    VoteRequest: attrgetter("term", "last.term", "last.index"),
    VoteReply: attrgetter("term", "request_term"),
    AppendEntries: attrgetter("term", *_PREV, "last", "commit", "position"),
    AppendReply: attrgetter(
        "term", "prev_index", "matched", "flushed", "conflict.term", "conflict.index"
    ),
    SnapshotChunk: attrgetter(
        "term", "anchor.term", "anchor.index", "offset", "end", "position", "size"
    ),
    SnapshotReply: attrgetter("term", "anchor", "offset"),
    Heartbeat: attrgetter("term", "commit"),
    HeartbeatReply: attrgetter("term", "matched", "flushed"),
    TimeoutNow: attrgetter("term", "term"),
    RangeRequest: attrgetter(*_PREV, "last"),
    RangeReply: attrgetter(*_PREV, "last", "position"),
    ReadIndexRequest: attrgetter("term", "term"),
    ReadIndexReply: attrgetter("term", "index"),
    DiskReport: attrgetter("term", "term"),
}


def check_numbers(message: Message, term: Term) -> None:
    """Raises MalformedFrame. `term`: this node's own."""
    numbers = tuple(_NUMBERS[type(message)](message))
    if min(numbers) < -1 or max(numbers) >= NUMBER_END:
        raise MalformedFrame(
            f"a {type(message).__name__} of {message.sender} has a number that no log reaches: "
            f"{max(numbers, key=abs)}"
        )
    claimed = getattr(message, "term", term)
    if claimed > term + TERM_STEP_MAX:
        raise MalformedFrame(
            f"{message.sender} claims term {claimed} while {term} is the newest known here; look "
            "for a stranger on the peer port, or a damaged state file"
        )
    if isinstance(message, AppendEntries | RangeReply) and message.runs:
        newest = message.runs[-1].term
        if newest >= NUMBER_END or (isinstance(message, AppendEntries) and newest > claimed):
            raise MalformedFrame(f"{message.sender} sends entries of a term {newest} to come")
