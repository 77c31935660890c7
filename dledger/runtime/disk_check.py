"""Looks at the disk of one replica now and then, with a timer of the event loop (L5).

    SyncThread.times ──┬─► DiskWatch.look ─┬─► told(DiskChecked): the rules, by them the leader
    a file made ahead ─┤                   └─► the log, when it changes
    the service ───────┘

Blocks are allocated, and the next file of the log is made, ahead of what is written. When there is
no space for them the disk is full, and what is allocated already is what replication has left:
proposals are refused until there is space again. So it is when the state that a leader sends finds
none: what is here is served on, and nothing newer comes until there is space. Votes, term and flush
mark are written in place and need no space.

The disk of a quiet group (R30) is looked at no more, once it has nothing to do and the rules know
that it is well; code that gives it work, or wakes the group, wakes this too.

What hangs here is what runs in a thread; a write that hangs does so on the loop (loop_watch.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from commitlog.files.system import is_out_of_space
from dledger.config import RaftConfig
from dledger.core.events import DiskChecked
from dledger.core.types import DiskHealth
from dledger.replica.disk_watch import LOOK_SECONDS, DiskWatch
from dledger.replica.disk_work import is_sent_again
from dledger.replica.ports import SyncWork
from dledger.runtime.clock import Clock
from dledger.runtime.loop_watch import LoopWatch
from dledger.runtime.owned import Owned
from dledger.runtime.sync_thread import DiskQueue

_log = logging.getLogger(__name__)

#: Between two reports of a disk that stays as it is: a follower sends its leader one message.
REPORT_SECONDS = 1.0
#: Between two tries to make a file for which there was no space.
ROOM_SECONDS = 1.0
#: A chunk of a state that found no space is sent again well before that (`resend_timeout`).
STATE_SECONDS = 10.0
#: uvloop's timers have milliseconds and may come half of one early.
_TIMER_SECONDS_MIN = 0.001


def watch_of(config: RaftConfig, queues: Mapping[str, DiskQueue]) -> DiskWatch:
    """As the settings want it; the thread that makes files may be slow."""
    log, hard = queues["log"].times, queues["hard"].times
    return DiskWatch(log, (hard,), config.disk_stall_ms / 1000, config.disk_trust_ms / 1000)


class DiskCheck:
    """Runs from `start` to `stop`. `last`: the newest verdict."""

    def __init__(
        self,
        node_id: str,
        watch: DiskWatch,
        clock: Clock,
        told: Callable[[DiskChecked], None],
        make: Callable[[SyncWork], None],
        owned: Owned,
        may_rest: Callable[[], bool] = lambda: False,
        *,
        watches_loop: bool = True,
    ) -> None:
        """`watches_loop`: the event loop's standstill is told from here, and by no host's watch.

        `may_rest`: True: this group is quiet, and `wake` is called when it is not any more.
        """
        self._may_rest = may_rest
        self._node_id, self._watch, self._clock = node_id, watch, clock
        self._told, self._make = told, make
        self._owned = owned
        seconds = watch.stall_seconds
        self._loop_watch = (
            LoopWatch(node_id, seconds, LOOK_SECONDS, clock.now) if watches_loop else None
        )
        self._timer: asyncio.TimerHandle | None = None
        self._space_timer: asyncio.TimerHandle | None = None
        self._unmade: list[SyncWork] = []
        self._report_at = self._no_state_at = 0.0
        self.last = DiskChecked(DiskHealth.GOOD)

    def start(self) -> None:
        """Look once, and again and again from then on."""
        if self._loop_watch is not None:
            self._loop_watch.start()
        self.look()

    def stop(self) -> None:
        """End all timers; a second call has no effect."""
        if self._loop_watch is not None:
            self._loop_watch.stop()
        for timer in (self._timer, self._space_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._space_timer = None

    def report_disk_space(self, low: str, full: str) -> None:
        """Why the service refuses producers, and why it cannot apply entries; "": it does."""
        watch = self._watch
        if (low, full) != (watch.low, watch.stuck):
            watch.low, watch.stuck = low, full
            self.look()

    def ended(self, work: SyncWork, error: BaseException | None) -> None:
        """Disk work of the replica, well or not."""
        if work.kind == "prepare":
            self.made(work, error)
        elif is_sent_again(work, error):
            self.kept(error)

    def made(self, work: SyncWork, error: BaseException | None) -> None:
        """A file of the log was made ahead, or could not be."""
        if isinstance(error, OSError) and is_out_of_space(error):
            self._watch.full = f"no space for more of the log: {error}"
            self._unmade.append(work)
            if self._space_timer is None:
                self._space_timer = self._owned.call_later(ROOM_SECONDS, self._make_again)
        elif self._watch.full and not self._unmade:
            self._watch.full = ""
        else:
            return
        self.look()

    def kept(self, error: BaseException | None) -> None:
        """A chunk of the state that a leader sends found no space; the leader sends it again.

        What is told of that is taken back when none has found no space for STATE_SECONDS: an offer
        of the leader ends well, and says nothing.
        """
        self._watch.no_state = (
            f"no space for the state that the leader sends ({error}); free some space, and this "
            "node goes on by itself"
        )
        self._no_state_at = self._clock.now()
        self.look()

    def _make_again(self) -> None:
        self._space_timer = None
        unmade, self._unmade = self._unmade, []
        for work in unmade:
            self._make(work)

    def look(self) -> None:
        """Look now, and set the timer for the next time."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._clock.now()
        if now - self._no_state_at >= STATE_SECONDS:
            self._watch.no_state = ""
        if self._loop_watch is not None:
            self._loop_watch.came_round(now)
        before, self.last = self.last, self._watch.look(now)
        changed = self.last.health is not before.health
        if changed:
            self._say()
        self._timer = None
        rests = self._watch.is_idle(self.last) and self._may_rest()
        if not rests:
            self._look_again(now)
        if changed or rests or now >= self._report_at:
            self._report_at = now + REPORT_SECONDS
            self._told(self.last)

    def wake(self) -> None:
        """Look again and again, if it rests."""
        if self._timer is None:
            self._look_again(self._clock.now())

    def _look_again(self, now: float) -> None:
        delay = max(_TIMER_SECONDS_MIN, self._watch.next_look(now) - now)
        self._timer = self._owned.call_later(delay, self.look)

    def _say(self) -> None:
        level = logging.INFO if self.last.health is DiskHealth.GOOD else logging.ERROR
        name = self.last.health.name.lower()
        _log.log(
            level, "%s: its disk is %s: %s", self._node_id, name, self.last.detail or "trusted"
        )
