"""31011 to 31015, 31022: an administrator's requests about the replicas of a broker name.

31011          hand the lead over
31012, 31013   the members of the group, listed and changed
31014, 31015   one replica reads its own log for damage; replicas are compared
31022          leaders that one replica has seen
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.protocol.frames import Frame


@dataclass(frozen=True, slots=True)
class TransferLeaderRequest:
    """`node`: a node's id or client address; absent: the follower that is furthest.

    `leader`: who led when the first replica heard of this. A request that is passed on is asked
    again of the next leader when the answer of the one before is lost; by then the lead has moved.
    """

    node: str | None = None
    bname: str | None = None
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class TransferLeaderResponse:
    """The new leader: its node id and, if known, its client address."""

    node: str
    address: str | None = None


def name_leader(frame: Frame, leader: str | None) -> Frame:
    """The request with the leader's name added, as the first replica passes it on."""
    if leader is None or "leader" in frame.ext:
        return frame
    return frame._replace(ext={**frame.ext, "leader": leader})


def without_leader(frame: Frame) -> Frame:
    """The request as its client may have signed it, before `name_leader`."""
    return frame._replace(ext={name: frame.ext[name] for name in frame.ext if name != "leader"})


@dataclass(frozen=True, slots=True)
class ListMembersRequest:
    """Answered with a JSON object: see cluster/broker/admin/member_requests.py."""

    bname: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeMembersRequest:
    """A change of the group. `kind`: add, add-learner, remove or readmit (the command `replace`).

    `dry_run`: the answer shows the group as it would be, and the group does not change.
    """

    kind: str
    node: str
    dry_run: bool = False
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class ScrubLogRequest:
    """`start`: begin a pass now, unless one is under way; else only tell how far it is."""

    start: bool = False
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyLogRequest:
    """Entries `first`..`last` are read from the disk and verified; an answer may cover fewer."""

    first: int
    last: int
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class ListLeadersRequest:
    """Answered with a JSON object: see cluster/broker/admin/lead_requests.py."""

    bname: str | None = None
