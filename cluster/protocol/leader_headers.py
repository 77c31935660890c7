"""31011: hand the lead of a broker name over, asked for by an administrator."""

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
