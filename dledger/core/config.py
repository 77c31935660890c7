"""Settings of the Raft rules. Frozen; `validate` checks relations between them.

Times are seconds on the clock that the driver passes as `now`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dledger.core.types import NodeId


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Settings of one RaftNode; each field's comment gives the cost of more and of less."""

    node_id: NodeId
    #: Who votes until an entry of the log says otherwise; empty: only the log says who.
    voters: tuple[NodeId, ...]
    #: More: less idle traffic, slower detection of a dead leader. Less: the opposite.
    heartbeat_interval: float = 0.1
    #: Less: elections under a busy disk or a paused process. More: longer without a leader.
    election_timeout_min: float = 0.3
    #: The spread makes split votes rare; a wide one makes the average election later.
    election_timeout_max: float = 0.6
    #: One frame; more: fewer frames in catch-up, longer stalls of what queues behind it.
    frame_bytes_max: int = 1 << 20
    #: Of a snapshot. One chunk is under way per follower, and is synced there before the next one
    #: is asked for, so that joining never takes more than its share of the leader's disk, line and
    #: event loop. More: fewer round trips, longer stalls of what queues behind one.
    snapshot_chunk_bytes_max: int = 256 << 10
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
    #: The node that should lead when it can; the leader checks now and then.
    preferred: NodeId | None = None
    #: The preferred node must have been healthy and caught up for this long.
    preferred_wait: float = 5.0
    #: A node whose disk is not healthy waits so much longer before it stands: others come first.
    unhealthy_wait: float = 2.0
    #: A leader's sync is slow when it takes longer than this, and so many times as long as the
    #: fastest voter's, for so long; then it hands over, and stands back for as long as it is slow
    #: and a while. Less: leadership moves for a passing burst. More: a group as slow as its leader.
    slow_sync_min: float = 0.05
    slow_sync_factor: float = 10.0
    slow_sync_wait: float = 10.0
    slow_sync_trust: float = 60.0
    #: Reads by a lease where there is one (lease.py). Every voter that has this on keeps a promise
    #: over broken connections and restarts: a leader that dies is then replaced later.
    lease_reads: bool = False
    #: A group whose hosts watch each other falls silent when nothing happened for so long. Less:
    #: groups with little traffic fall silent and wake again and again. More: idle ones cost longer.
    quiet_after: float = 1.0
    #: A quiet leader asks its followers so seldom whether they are quiet still; a quiet follower
    #: that is not asked for `QUIET_CHECKS_MISSED` times that looks for a leader (quiet.py).
    quiet_check: float = 60.0
    #: A clock gains or loses at most this part of the time that passes. More: leases are shorter.
    #: Less than clocks really do: reads may be stale.
    clock_drift_max: float = 0.05

    @property
    def lease(self) -> float:
        """For how long after hearing a leader a voter refuses to help replace it (stickiness).

        A little under the shortest election timeout, so that two followers which heard the last
        heartbeat within milliseconds of each other do not refuse one another.
        """
        return self.election_timeout_min * 0.9

    @property
    def clock_step_max(self) -> float:
        """Most seconds between two reads of a promising voter's clock; more is a jump."""
        return self.heartbeat_interval / 2

    @property
    def promise(self) -> float:
        """Seconds that a voter promises: less than it keeps, by the largest unnoticed jump."""
        return self.lease - self.clock_step_max

    @property
    def drift_factor(self) -> float:
        """The part of a promise that a leader with a slow clock may use if the voter's is fast."""
        return (1 - self.clock_drift_max) / (1 + self.clock_drift_max)

    def validate(self) -> None:
        """Raise ValueError naming both values of a relation that cannot work."""
        if self.voters and self.node_id not in self.voters:
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
        if not 0 <= self.clock_drift_max < 1:
            raise ValueError(f"clock_drift_max {self.clock_drift_max} must be 0 to below 1")
        if self.lease_reads and self.promise * self.drift_factor <= self.heartbeat_interval:
            raise ValueError(
                f"clock_drift_max {self.clock_drift_max} leaves a lease of "
                f"{self.promise * self.drift_factor:.3f} s, which must be above heartbeat_interval "
                f"{self.heartbeat_interval}, or no lease lasts until it is renewed"
            )
        if self.frame_bytes_max > self.window_bytes_max:
            raise ValueError(
                f"frame_bytes_max {self.frame_bytes_max} must fit into "
                f"window_bytes_max {self.window_bytes_max}"
            )
        if self.voters and self.preferred is not None and self.preferred not in self.voters:
            raise ValueError(f"preferred {self.preferred} is not among the voters {self.voters}")
