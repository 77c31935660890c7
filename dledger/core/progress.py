"""The leader's view of one follower.

              reject, disconnect, silence
        ┌───────────────────────────────────┐
        ▼                                   │
      PROBE ──── success ────────────► REPLICATE
      one message at a time,           many in flight, bounded by
      asks where the logs meet         frames and bytes
        │                                   ▲
        └─ below our first ─► SNAPSHOT ─────┘
                              one chunk at a time (snapshots.py)

Pointers: `flushed ≤ matched < next ≤ last + 1`. `flushed` only grows within a leadership: it is
what the follower has on disk and equal to ours, the number that counts for commit. `matched` is
what it has written; a follower that crashes may lose the part above `flushed`.

A follower that catches up and does not count for commit makes way for producers: while clients
write, the leader sends it GAIN times as many bytes a second as are written, or PACE_MIN, spread
over that second; else as fast as it takes them. Sending costs the leader a read, and all nodes of
its machine processor time.

A leadership makes its own Progress objects; nothing of an earlier one is used again (S5).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dledger.core.config import CoreConfig
from dledger.core.types import NO_INDEX, DiskHealth, Index

#: One that catches up under load is sent so many times what is written. Less: it takes longer,
#: during which logs grow; with 1 it never ends. More: producers wait longer behind it.
GAIN = 1.5
#: Bytes a second that it is sent at least: a few messages a second do not make it wait for days.
PACE_MIN = 32 << 20
#: So many questions in a row, one a heartbeat, has a follower rejected that lost entries. One late
#: rejection is none: it answers an earlier question, or comes again.
REJECTIONS = 5


class Mode(enum.Enum):
    """How a follower is sent the log; see the module's text."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


@dataclass(slots=True)
class Progress:
    """State about one follower within one leadership. Times are the driver's seconds."""

    next: Index
    heard_at: float
    progress_at: float
    mode: Mode = Mode.PROBE
    matched: Index = NO_INDEX
    flushed: Index = NO_INDEX
    round: int = 0
    #: The newest round after which it was quiet (quiet.py).
    quiet_round: int = 0
    sending: bool = False
    probe_at: float | None = None
    empty_probe: bool = False
    healthy_since: float | None = None
    in_flight: list[tuple[Index, int]] = field(default_factory=list)
    in_flight_bytes: int = 0
    #: Of a snapshot: bytes that the follower has on disk.
    offset: int = 0
    #: Of one who catches up: the end of the log when this round began, and when that was.
    goal: Index | None = None
    goal_at: float = 0.0
    keeps_pace: bool = False
    #: Bytes a second that it may be sent, None: any; what of it is left, and since when it grows.
    pace: float | None = None
    allowance: float = 0.0
    allowance_at: float = 0.0
    #: Bytes that were proposed until the last heartbeat, and when that was.
    proposed_before: int = 0
    proposed_at: float = 0.0
    #: As it last reported; until then its disk is taken for a good one.
    disk_health: DiskHealth = DiskHealth.GOOD
    sync_seconds: float = 0.0
    #: Until then, on the leader's clock, it votes for nobody else (lease.py).
    promised_until: float = float("-inf")
    #: Questions for an entry that it had on disk, rejected in a row; when the last was asked.
    rejections: int = 0
    rejected_at: float | None = None

    def measure_pace(self, last: Index, now: float, config: CoreConfig) -> None:
        """Rounds (dissertation 4.2.1): it keeps pace when one took less than an election."""
        if self.goal is not None and self.flushed < self.goal:
            if now - self.goal_at >= config.election_timeout_max:
                self.keeps_pace = False
            return
        if self.goal is not None:
            self.keeps_pace = now - self.goal_at < config.election_timeout_max
        self.goal, self.goal_at = last, now

    @classmethod
    def of_new(cls, following: Index, now: float, proposed: int) -> Progress:
        """Progress of a new member: slow until the clients' write rate is known (`make_way`)."""
        new = cls(following, now, now, proposed_before=proposed, proposed_at=now)
        new.pace, new.allowance_at = float(PACE_MIN), now
        return new

    def make_way(self, proposed: int, now: float) -> None:
        """With each heartbeat, for a member that does not count: adapt its pace to the writes.

        `proposed`: bytes that this leadership has appended so far.
        """
        written, seconds = proposed - self.proposed_before, now - self.proposed_at
        if seconds <= 0:
            return
        self.proposed_before, self.proposed_at = proposed, now
        if written and self.pace is None:
            self.allowance, self.allowance_at = 0.0, now
        self.pace = max(PACE_MIN, GAIN * written / seconds) if written else None

    def take_all(self) -> None:
        """Lift the pace limit: the member counts from now on, so clients wait for it."""
        self.pace = None

    def become_probe(self, *, next_index: Index | None = None, empty: bool = True) -> None:
        """Ask again where the logs meet; do not wait for ranges in flight."""
        self.mode = Mode.PROBE
        self.probe_at = None
        self.empty_probe = empty
        self.in_flight.clear()
        self.in_flight_bytes = 0
        if next_index is not None:
            assert next_index > self.flushed, "what is on its disk is never sent again"
            self.next = next_index
            self.matched = min(self.matched, Index(next_index - 1))

    def become_snapshot(self) -> None:
        """Switch to snapshots: the entries that this follower needs were deleted."""
        self.become_probe(empty=False)
        self.mode, self.offset = Mode.SNAPSHOT, 0

    def become_replicate(self) -> None:
        """Switch to many messages in flight: its log meets ours."""
        self.mode = Mode.REPLICATE
        self.probe_at = None
        self.empty_probe = False

    def sent(self, last: Index, size: int) -> None:
        """A range up to `last` is on its way."""
        if last >= self.next:
            self.next = Index(last + 1)
            self.in_flight.append((last, size))
            self.in_flight_bytes += size
            self.allowance -= size

    def acknowledged(self, matched: Index, flushed: Index, now: float) -> bool:
        """Take a success in; True when something is new."""
        assert flushed <= matched
        news = False
        if self.rejections and matched >= self.flushed:
            self.rejections = 0
        if matched > self.matched:
            self.matched, news = matched, True
        if flushed > self.flushed:
            self.flushed, news = flushed, True
        if news:
            self.progress_at = now
        if self.next <= self.matched:
            self.next = Index(self.matched + 1)
        in_flight = self.in_flight
        while in_flight and in_flight[0][0] <= self.matched:
            self.in_flight_bytes -= in_flight.pop(0)[1]
        return news

    def rejected_settled(self, index: Index) -> None:
        """Note that it says to lack an entry at or below `flushed`, which no pointer follows.

        A late rejection says the same of a healthy follower, so only the answer to the question
        that is open now counts, once for each question, until a success tells the contrary.
        """
        is_open = self.mode is Mode.PROBE and index == self.next - 1
        if is_open and self.probe_at is not None and self.probe_at != self.rejected_at:
            self.rejections, self.rejected_at = self.rejections + 1, self.probe_at

    @property
    def lacks_settled(self) -> bool:
        """Has its disk lost entries that it acknowledged? Told to people; no rule asks for it."""
        return self.rejections >= REJECTIONS

    def is_window_open(self, now: float, config: CoreConfig) -> bool:
        """May another range be sent, behind those that are not answered yet?"""
        return (
            len(self.in_flight) < config.window_frames_max
            and self.in_flight_bytes < config.window_bytes_max
            and (self.pace is None or self._allowed(self.pace, now, config))
        )

    def _allowed(self, pace: float, now: float, config: CoreConfig) -> bool:
        """Let the allowance grow, through one heartbeat at most; one range may overdraw it."""
        grown = self.allowance + pace * (now - self.allowance_at)
        self.allowance = min(grown, pace * config.heartbeat_interval)
        self.allowance_at = now
        return self.allowance > 0
