"""Words of the core. Different numbers have different types (docs/glossary.md).

Index -1 and term -1 stand for "before the first entry": the first entry of a log has index 0, and
term 0 is legal in logs written by Java.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", str)
Index = NewType("Index", int)
Term = NewType("Term", int)

NO_INDEX = Index(-1)
NO_TERM = Term(-1)
FIRST_INDEX = Index(0)


class EntryId(NamedTuple):
    """Names one entry for ever: two logs with the same EntryId agree up to there (Log Matching)."""

    term: Term
    index: Index  # type: ignore[assignment]  # hides tuple.index, which nobody wants here

    # A NamedTuple compares term first, then index: exactly "at least as up to date" (paper 5.4.1).


NO_ENTRY = EntryId(NO_TERM, NO_INDEX)


class TermRun(NamedTuple):
    """Entries of one term in a row: from the end of the run before it up to `last`, inclusive."""

    term: Term
    last: Index


class Role(enum.Enum):
    """Raft roles. FAILED: disk or log are not to be trusted; takes no part in anything (D5)."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FAILED = "failed"


class DiskHealth(enum.Enum):
    """How far a node's disk can be trusted with a vote and with the lead (L5; see disk.py).

    RECOVERING: it works again, and did not a short while ago. SLOW: its syncs take much longer
    than those of another voter. LOW: the service refuses producers, the rest is for its own
    entries. FULL: no space for another file of the log. STALLED: a sync does not come back.
    """

    GOOD = 0
    RECOVERING = 1
    SLOW = 2
    LOW = 3
    FULL = 4
    STALLED = 5


@dataclass(frozen=True, slots=True)
class HardState:
    """The durable state of a node: its term, its vote in that term, and its incarnation.

    `incarnation` is drawn once when the node's folder is formatted; a wiped node comes back with
    another one and is not counted for what it lost (S7, R6).
    `forgot`: this incarnation began on the log of one that lost its votes or its flush mark. It
    promises nothing until an entry of the log names just this incarnation (R6).
    """

    term: Term
    voted_for: NodeId | None
    incarnation: int
    forgot: bool = False


class Reason(enum.Enum):
    """Why the core refused something; named after DLedger's response codes.

    Source: docs/spec/raft_log.md 3.1.
    """

    NOT_LEADER = 404
    LEADER_PENDING_FULL = 503
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506
    TERM_CHANGED = 501
    FALL_BEHIND_TOO_MUCH = 417
    UNKNOWN_MEMBER = 401
    DISK_ERROR = 414
    DISK_FULL = 415
    TIMEOUT = 300
    #: Of transfers: the target's disk is not healthy.
    UNHEALTHY_DISK = 606
    #: Of changes of the group, which DLedger does not have.
    CHANGE_IN_PROGRESS = 601
    ALREADY_MEMBER = 602
    LAST_VOTER = 603
    QUORUM_LOST = 604
    TOO_MANY_MEMBERS = 605
    UNMET_MEMBER = 607
