"""What the rules of Raft may be tuned with. Frozen; `validate` checks relations.

Times are seconds on the clock that the driver passes as `now`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dledger.core.types import NodeId


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Settings of one RaftNode; every field says what more and less cost."""

    node_id: NodeId
    voters: tuple[NodeId, ...]
    #: More: less idle traffic, slower detection of a dead leader. Less: the opposite.
    heartbeat_interval: float = 0.1
    #: Less: elections under a busy disk or a paused process. More: longer without a leader.
    election_timeout_min: float = 0.3
    #: The spread makes split votes rare; a wide one makes the average election later.
    election_timeout_max: float = 0.6
    #: One frame; more: fewer frames in catch-up, longer stalls of what queues behind it.
    frame_bytes_max: int = 1 << 20
    #: Sent and not yet acknowledged, per follower; bounds memory against a slow follower.
    window_bytes_max: int = 16 << 20
    #: The same in frames; more hides longer round trips.
    window_frames_max: int = 128
    #: Written by clients and not yet committed; above it proposals are refused (back-pressure).
    uncommitted_bytes_max: int = 64 << 20
    #: A follower without any answer for this long is asked again where it is (cheap probe).
    resend_timeout: float = 0.5
    #: R5: data is outstanding and nothing moved for election_timeout_max × this: not alive.
    stall_factor: float = 4.0
    #: A successor may lag by at most this many entries when a transfer begins.
    transfer_lag_max: int = 10_000
    #: Who should lead when it can; checked now and then by whoever leads.
    preferred: NodeId | None = None
    #: The preferred node must have been healthy and caught up for this long.
    preferred_wait: float = 5.0

    @property
    def peers(self) -> tuple[NodeId, ...]:
        """Everyone but this node."""
        return tuple(voter for voter in self.voters if voter != self.node_id)

    @property
    def lease(self) -> float:
        """For how long after hearing a leader a voter refuses to help replace it (stickiness).

        A little under the shortest election timeout, so that two followers which heard the last
        heartbeat within milliseconds of each other do not refuse one another.
        """
        return self.election_timeout_min * 0.9

    def validate(self) -> None:
        """Raise ValueError naming both values of a relation that cannot work."""
        if self.node_id not in self.voters:
            raise ValueError(f"node_id {self.node_id} is not among the voters {self.voters}")
        if len(set(self.voters)) != len(self.voters):
            raise ValueError(f"a voter is named twice in {self.voters}")
        if self.heartbeat_interval <= 0:
            raise ValueError(f"heartbeat_interval {self.heartbeat_interval} must be above 0")
        if self.heartbeat_interval * 2 > self.election_timeout_min:
            raise ValueError(
                f"heartbeat_interval {self.heartbeat_interval} must be at most half of "
                f"election_timeout_min {self.election_timeout_min}, or one lost heartbeat elects"
            )
        if self.election_timeout_min >= self.election_timeout_max:
            raise ValueError(
                f"election_timeout_min {self.election_timeout_min} must be below "
                f"election_timeout_max {self.election_timeout_max}, or votes split for ever"
            )
        if self.frame_bytes_max > self.window_bytes_max:
            raise ValueError(
                f"frame_bytes_max {self.frame_bytes_max} must fit into "
                f"window_bytes_max {self.window_bytes_max}"
            )
        if self.preferred is not None and self.preferred not in self.voters:
            raise ValueError(f"preferred {self.preferred} is not among the voters {self.voters}")
