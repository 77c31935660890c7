"""The rules' reasons for a refused call, as errors with a sentence."""

from __future__ import annotations

from typing import NoReturn

from commitlog.records.record import HEADER_SIZE
from dledger.core.node import RaftNode
from dledger.core.types import DiskHealth, NodeId, Reason
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    LogUsageError,
    MembershipRefused,
    NodeFailed,
    NotLeader,
    OutcomeUnknown,
    QueueFull,
    Transferring,
)
from dledger.membership.members import REFUSED_CHANGES
from dledger.replica.ports import Proposal


def measure(proposal: Proposal, size_max: int) -> tuple[int, int, int]:
    """How many records, their bytes with headers, and the bytes of the largest body.

    Raises EntryTooLarge, LogUsageError for what could not be written once it has an index.
    """
    bodies = proposal.bodies
    assert bodies, "an empty proposal says nothing"
    count = len(bodies)
    if count == 1:
        smallest = largest = total = len(bodies[0])
    else:
        sizes = list(map(len, bodies))
        smallest, largest, total = min(sizes), max(sizes), sum(sizes)
    if largest > size_max or 0 <= proposal.stamp_at > smallest - 8:
        _refuse_size(proposal, smallest, largest, size_max)
    return count, total + HEADER_SIZE * count, largest


def disk_full(node: RaftNode) -> str:
    """A sentence that names the full disk: the leader's own, or those of the voters."""
    if node.disk.health is DiskHealth.FULL:
        return node.disk.detail
    names = ", ".join(node.full_voters)
    return f"{names} and so no majority has space for more of the log; free some space there"


def _refuse_size(proposal: Proposal, smallest: int, largest: int, size_max: int) -> NoReturn:
    if largest > size_max:
        raise EntryTooLarge(
            f"an entry has {largest} bytes and a file of the log holds one of "
            f"{size_max} at most; send less or set the log up with larger files"
        )
    raise LogUsageError(
        f"a body of {smallest} bytes has no space for its position at byte "
        f"{proposal.stamp_at}; send a whole message record"
    )


def change_refusal(
    reason: Reason, leader: NodeId | None, failure: NodeFailed | None
) -> DledgerError:
    """The error for a change of the group that was refused, or has an unknown outcome."""
    if reason is Reason.TERM_CHANGED:
        return OutcomeUnknown(
            "leadership ended before the change of the group was known to be committed; "
            "list the members to see"
        )
    if reason in REFUSED_CHANGES:
        sentence, retriable = REFUSED_CHANGES[reason]
        return MembershipRefused(sentence, retriable=retriable)
    return refusal(reason, leader, failure)


def refusal(reason: Reason, leader: NodeId | None, failure: NodeFailed | None) -> DledgerError:
    """The error of a refused call. `leader`: None if unknown; `failure`: of this replica."""
    match reason:
        case Reason.NOT_LEADER:
            return NotLeader(leader)
        case Reason.LEADER_TRANSFERRING:
            return Transferring("leadership is being handed over; try again shortly")
        case Reason.LEADER_NOT_READY:
            return QueueFull("the new leader is settling in; try again in a few milliseconds")
        case Reason.LEADER_PENDING_FULL:
            return QueueFull("more waits to be replicated than the limit; pause and try again")
        case Reason.UNHEALTHY_DISK:
            return QueueFull("the disk of that node is not healthy; choose another node")
        case Reason.DISK_ERROR:
            return failure or NodeFailed("this replica stopped")
        case _:
            return QueueFull(f"refused for now: {reason.name}; try again shortly")
