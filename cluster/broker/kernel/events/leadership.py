"""When requests are served here, passed on, or held: the broker's view of its replica's role.

LEADING     leads, own no-op applied and dispatched: everything is served here
FOLLOWING   another node leads: found messages here, all else is passed on
WAITING     nobody leads, or we lead and are not ready yet: requests wait a moment

role_changed(LEADER) ─► WAITING ─► no-op applied ─► dispatched up to it ─► LEADING
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable

from cluster.broker.config import BrokerConfig
from dledger.core.types import NodeId, Role, Term

#: Told whether its time is over.
Retry = Callable[[bool], None]
SETTLE_SECONDS = 1.0  # a new leader learns in this time which clients the others have


class Serving(enum.Enum):
    """Where requests are served; see the module's text."""

    LEADING = "leading"
    FOLLOWING = "following"
    WAITING = "waiting"


class Leadership:
    """One per broker. `ready` must be called when a leadership's no-op is dispatched."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        now: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        call_soon: Callable[[Callable[[], None]], object],
        bound: Callable[[Retry], Retry] = lambda retry: retry,
    ) -> None:
        self._config, self._now, self._call_later = config, now, call_later
        self._call_soon, self._bound = call_soon, bound
        self.role, self.term = Role.FOLLOWER, Term(-1)
        self.leader: NodeId | None = None
        self.serving = Serving.WAITING
        self.leading_since = 0.0
        self.changes = 0
        self._changed: list[Callable[[], None]] = []
        self._held: deque[tuple[float, Retry, int]] = deque()
        self._held_bytes = 0
        self._waiting_since = now()
        self._timer = self._is_releasing = False

    @property
    def is_releasing(self) -> bool:
        """Do requests wait that are served next? A later one is held behind them, in its order."""
        return self._is_releasing

    @property
    def leads(self) -> bool:
        """True while this node leads and its own no-op is dispatched: everything is served here."""
        return self.serving is Serving.LEADING

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change of `serving`, of the term or of the leader."""
        self._changed.append(listener)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """The replica's role, term or leader changed. A new leader waits until `ready`."""
        self.role, self.term, self.leader = role, term, leader
        following = role is Role.FOLLOWER and leader is not None
        self._set(Serving.FOLLOWING if following else Serving.WAITING)

    def ready(self, term: Term) -> None:
        """This leadership may take requests now."""
        if self.role is Role.LEADER and self.term == term and not self.leads:
            self.leading_since = self._now()
            self._set(Serving.LEADING)

    def _set(self, serving: Serving) -> None:
        if serving is Serving.WAITING and self.serving is not Serving.WAITING:
            self._waiting_since = self._now()
        self.serving = serving
        self.changes += 1
        for listener in self._changed:
            listener()
        self._is_releasing = serving is not Serving.WAITING and bool(self._held)
        if self._is_releasing:
            self._call_soon(self._release)  # not from inside the replica

    # -- requests that wait ------------------------------------------------------------------------

    def hold(self, retry: Retry, size: int = 0) -> bool:
        """Call `retry(False)` when a leader is known, else `retry(True)` after
        `leader_wait_seconds`.

        While nobody leads the seconds count from when that began, at least. False: too many wait
        already, or with `size` more bytes too much.
        """
        config = self._config
        if (
            len(self._held) >= config.leader_wait_count_max
            or self._held_bytes + size > config.leader_wait_bytes_max
        ):
            return False
        self._held_bytes += size
        until = self._now() + config.leader_wait_seconds
        self._held.append((until, self._bound(retry), size))
        self._arm()
        return True

    def hold_for(self, seconds: float, retry: Retry, size: int = 0) -> bool:
        """As `hold`, and again when the time is over before so many seconds have passed."""
        until = self._now() + seconds

        def once_more(late: bool) -> None:
            again = late and self._config.leader_wait_seconds > 0 and self._now() < until
            if not (again and self.hold(once_more, size)):
                retry(late)

        return self.hold(once_more, size)

    def _arm(self) -> None:
        if not self._timer and self._held:
            self._timer = True
            self._call_later(max(self._due() - self._now(), 0.0), self._expire)

    def _due(self) -> float:
        """When the first that is held has waited long enough."""
        until = self._held[0][0]
        if self.serving is not Serving.WAITING:
            return until
        return max(until, self._waiting_since + self._config.leader_wait_seconds)

    def _expire(self) -> None:
        self._timer = False
        now = self._now()
        while self._held and self._due() <= now:
            _, retry, size = self._held.popleft()
            self._held_bytes -= size
            retry(True)
        self._arm()

    def _release(self) -> None:
        if self.serving is Serving.WAITING:
            return
        self._is_releasing = False
        held, self._held = self._held, deque()
        self._held_bytes = 0
        for _, retry, _ in held:
            retry(False)

    def settled_in(self) -> float:
        """Seconds until a new leader's picture of connected clients is complete; 0 when it is."""
        return max(0.0, self.leading_since + SETTLE_SECONDS - self._now())
