"""The wall clock of a node as far as its group agrees with it (R24).

    CLOCK   sent 8 | echo 8 | held 4 | wall 8

    sent    the sender's monotonic clock in microseconds; only the sender knows what that means
    echo    the last `sent` that it has heard from the receiver, 0 before the first
    held    microseconds since then
    wall    the sender's wall clock, milliseconds since 1970

Every node tells every peer once a second, and at once when either has heard nothing before. A round
trip is `now - echo - held` of the receiver's own clock, so the peer's wall clock is known to within
half of it. What is kept is its distance from our *monotonic* clock: a jump of our own wall clock
shows at once, not with the next second.

    time_ms = our wall clock, but within `ALLOWANCE_MS` of the middle clock of the group

The hosts of many groups tell each other once for all groups, on their carriers (host_links.py); a
group's own frame is for a peer that no carrier leads to, or that sends one.

The middle one of three or five clocks is between two others: one that is wrong does not move it.
Of two (or four) the earlier one is taken: a stamp of the future stays in the log, one that waits
does not. A peer that is gone counts with what was last heard of it, as long as it is a member. A
clock that is behind is put forward only by what was measured just now, so that a monotonic clock
that jumps makes no stamps of the future either. When both of our clocks jump, by different times,
neither says how much time has passed since the last look at them: none has, then, for the peers'
clocks, until they are measured again.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Callable, Collection

from commitlog.files.system import Buffer
from dledger.core.types import NodeId
from dledger.errors import MalformedFrame
from dledger.runtime.clock import Clock, SystemClock
from dledger.wire.frames import FrameType, pack_frame

TELL_SECONDS = 1.0
#: NTP keeps machines within tens of ms; seconds mean that something is broken.
ALLOWANCE_MS = 5_000
#: A slower answer tells too little.
ROUND_TRIP_SECONDS_MAX = 1.0

#: What was measured before that bounds a clock that is ahead, and no other.
FRESH_SECONDS = 4.0
#: Our wall clock and our monotonic one part by less between two looks at them.
JUMP_MS = 250

#: Who has heard nothing for so long, in microseconds, is told of no host's clocks, and of ours now.
_UNTOLD = 2 * TELL_SECONDS * 1e6

_FRAME = struct.Struct(">QQIQ")
_HELD_MAX = 0xFFFF_FFFF
_log = logging.getLogger(__name__)


class GroupClock:
    """A `Clock`: `now` is the machine's, `time_ms` bounded by the group. One event loop's.

    `behind`: called with a peer that may know nothing of our clocks, to tell it at once.
    `hosts`: of the host that the group runs on, with the clocks of other hosts; None: it is alone.
    """

    def __init__(self, node_id: str, clock: Clock) -> None:
        self._node_id, self._clock = node_id, clock
        self.now = clock.now
        self._heard: dict[NodeId, tuple[int, float]] = {}  # its `sent`, and when that came
        self._offsets: dict[NodeId, float] = {}  # its wall clock minus our monotonic one, ms
        self._low, self._high = -math.inf, math.inf  # the middle one is between these two offsets
        self._measured_at = -math.inf
        self._looked_at = self.now()
        self._apart = self._clock.time_ms() - self._looked_at * 1000  # our two clocks, ms
        self._far = False
        self.behind: Callable[[NodeId], None] = lambda _: None
        self.hosts: GroupClock | None = None
        self._members: Collection[NodeId] = ()
        #: Settled so often; and the hosts' clock, when this one settled last.
        self._settled = self._seen = 0

    @classmethod
    def of(cls, node_id: str, clock: Clock, hosts: GroupClock | None = None) -> GroupClock:
        """`clock` itself when it is one already. It counts with `hosts` if both are of one kind."""
        found = clock if isinstance(clock, cls) else cls(node_id, clock)
        if hosts is not None:
            ours, theirs = found._clock, hosts._clock
            both_machines = type(ours) is type(theirs) and isinstance(ours, SystemClock)
            if ours is theirs or both_machines:
                found.hosts = hosts
        return found

    def time_ms(self) -> int:
        """Milliseconds since 1970, for times that the group has to agree about."""
        return int(self._between(self._clock.time_ms(), ALLOWANCE_MS))

    @property
    def ahead_ms(self) -> int:
        """How far our wall clock is ahead of the group's middle one; 0 before a peer was heard."""
        own = self._clock.time_ms()
        return round(own - self._between(own, 0))

    @property
    def measured(self) -> dict[NodeId, float]:
        """Peer → its wall clock minus our monotonic one, ms, of each peer that was measured."""
        return dict(self._offsets)

    def _between(self, own: int, allowance: int) -> float:
        """The time nearest to `own` within the group's bounds, ms since 1970."""
        now = self._look(own)
        hosts = self.hosts
        if hosts is not None:
            hosts._look(own)
            if hosts._settled != self._seen:
                self._settle()
        high = now * 1000 + self._high + allowance
        if own > high:
            return high
        low = now * 1000 + self._low - allowance
        return low if own < low and now - self._measured_at <= FRESH_SECONDS else own

    def _look(self, own: int) -> float:
        """Our monotonic time, s. After a jump of our clocks, peers' offsets are corrected."""
        now = self.now()
        apart = own - now * 1000
        if abs(apart - self._apart) > JUMP_MS:
            passed = (now - self._looked_at) * 1000
            self._offsets = {peer: offset - passed for peer, offset in self._offsets.items()}
            self._settle()
        self._looked_at, self._apart = now, apart
        return now

    def _settle(self) -> None:
        """Set the bounds of the group's middle clock: the peers' two middle offsets."""
        offsets, hosts = self._offsets, self.hosts
        self._settled += 1
        if hosts is not None:
            known = {one: at for one, at in hosts._offsets.items() if one in self._members}
            offsets, self._seen = offsets | known, hosts._settled
            if known:
                self._measured_at = max(self._measured_at, hosts._measured_at)
        rest = [-math.inf, *sorted(offsets.values()), math.inf]
        middle = len(rest) // 2
        self._low, self._high = rest[middle - 1 : middle + 1]

    def follow(self, members: Collection[NodeId]) -> None:
        """Forget the clocks of peers that are not in `members`."""
        self._members = frozenset(members)
        for known in (self._heard, self._offsets):
            for peer in known.keys() - set(members):
                del known[peer]
        self._settle()

    def frame_for(self, peer: NodeId) -> bytes:
        """The CLOCK frame to send to `peer` now."""
        return pack_frame(FrameType.CLOCK, self.times_for(peer))

    def times_for(self, peer: NodeId) -> bytes:
        """The content of that frame, or of a CHANNEL frame to a host, as of now."""
        now = self.now()
        echo, came = self._heard.get(peer, (0, now))
        held = min(round((now - came) * 1e6), _HELD_MAX)
        wall = max(self._clock.time_ms(), 0)
        return _FRAME.pack(round(now * 1e6), echo, held, wall)

    def heard(self, peer: NodeId, times: Buffer) -> None:
        """Take the times of the clocks of `peer`, a member. Raises MalformedFrame."""
        if len(times) != _FRAME.size:
            raise MalformedFrame("a peer did not say what its clocks show")
        sent, echo, held, wall = _FRAME.unpack(times)
        now = self._look(self._clock.time_ms())
        first = peer not in self._heard
        self._heard[peer] = sent, now
        if first or not echo or held > _UNTOLD:
            self.behind(peer)
        if not echo:
            return
        trip = now - (echo + held) / 1e6
        if 0 <= trip <= ROUND_TRIP_SECONDS_MAX:  # else it is slow, or of our process before this
            self._offsets[peer] = wall + (trip / 2 - now) * 1000
            self._measured_at = now
            self._settle()
            self._warn()

    def _warn(self) -> None:
        """Once each time that our clock leaves the allowance, and when it is back."""
        ahead = self.ahead_ms
        far = abs(ahead) > ALLOWANCE_MS
        if far and not self._far:
            _log.warning(
                "%s: the wall clock is %.1f s %s that of its group; times of messages follow the "
                "group. Set the clock of this machine right",
                self._node_id,
                abs(ahead) / 1000,
                "ahead of" if ahead > 0 else "behind",
            )
        elif self._far and not far:
            _log.info("%s: the wall clock agrees with its group again", self._node_id)
        self._far = far
