"""One replica on a real machine: feeds events, carries sends and syncs out, sets one timer.

    sockets ──► Transport ──► replica.receive ─┐             ┌─► Transport.send
    timer ────► replica.timer ─────────────────┼─► Replica ──┤
    callers ──► replica.propose / read_index ──┤             └─► SyncLane "log", "hard"
    threads ──► replica.sync_done ─────────────┘                    │
         ▲                                                          │
         └────────────── call_soon_threadsafe ◄─────────────────────┘

Everything but `SyncTask.run` happens on the event loop's thread. There are no ticks: an idle node
wakes for its heartbeats and nothing else. Two lanes of disk work, because a vote must not wait for
the log's bulk data and the log must not wait for a vote (L2).

A node is alive as a whole or not at all: a task that dies of a mistake, a callback that raises, a
disk that fails, each ends the replica (D5), and `failed` tells whoever runs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from commitlog.files import Buffer
from dledger.config import ENTRY_SIZE_LIMIT, RaftConfig
from dledger.core.messages import Message
from dledger.core.types import NO_INDEX, Index, NodeId, Term
from dledger.envelope import STAMP_AT, noop_body
from dledger.errors import DledgerError, EntryTooLarge, MalformedFrame, NodeFailed
from dledger.handshake import Lane, Member, Vouch
from dledger.replica import Proposal, Replica, StateMachine, SyncWork
from dledger.runtime.clock import Clock, SystemClock, seeded_jitter
from dledger.runtime.sync_lane import SyncLane
from dledger.runtime.transport import Listener, Transport
from dledger.storage.port import HardStateStore, LogStore

_log = logging.getLogger(__name__)

#: A sync that takes longer than this at shutdown is left behind; the log is then not marked clean.
STOP_SECONDS_MAX = 10.0
#: uvloop's timers have milliseconds and may come half of one early; without a floor the rest of
#: the way would be spun.
TIMER_SECONDS_MIN = 0.001
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver is given: the opened storage, and what the log is for.

    `vouch`: is this the life of the peer that we know? (peers.py). `close(failed)`: release the
    storage, without another write when it has failed. `noop_body`: another first entry of a
    leadership than ours; it is stamped with its physical offset at byte 28.
    """

    log: LogStore
    hard: HardStateStore
    member: Member
    machine: StateMachine
    vouch: Vouch
    close: Callable[[bool], None]
    noop_body: Callable[[Term], Buffer] | None = None
    applied: Index = NO_INDEX


class Driver:
    """Runs one `Replica`; see the module's text. Use from one event loop only.

    Attributes:
        replica: for its status, role and log; do not call its event methods.
        failed: set to the reason when the node has stopped by itself; never set by `stop`.
    """

    def __init__(self, config: RaftConfig, parts: Parts, clock: Clock | None = None) -> None:
        config.validate()
        self.config = config
        self._clock = clock or SystemClock()
        self._parts = parts
        jitter = seeded_jitter(config.seed)
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[NodeFailed] = self._loop.create_future()
        self.transport = Transport(
            config,
            parts.member,
            Listener(self._received, self._disconnected, self._died),
            jitter,
            parts.vouch,
        )
        self.replica = Replica(
            config.core(),
            parts.log,
            parts.hard,
            parts.machine,
            self,
            noop_body=parts.noop_body or self._noop_body,
            noop_stamp_at=STAMP_AT,
            jitter=jitter,
            now=self._clock.now(),
            applied=parts.applied,
        )
        self._lanes: dict[str, SyncLane] = {}
        self._syncing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._stopped = False

    async def start(self) -> None:
        """Listen, dial, and take part. Raises OSError when the address is taken."""
        log_lane = SyncLane(f"dledger-{self.config.node_id}-log", self._loop, self._sync_done)
        hard_lane = SyncLane(f"dledger-{self.config.node_id}-hard", self._loop, self._sync_done)
        file_lane = SyncLane(f"dledger-{self.config.node_id}-files", self._loop, self._sync_done)
        self._lanes = {
            "log": log_lane,
            "mark": hard_lane,
            "hard": hard_lane,
            "prepare": file_lane,
        }
        try:
            await self.transport.start()
        except OSError:
            await self.stop()
            raise
        self.replica.start(self._clock.now())
        self._after()

    async def stop(self) -> None:
        """Stop taking part, let disk work end, and close the storage; idempotent."""
        if self._stopped:
            return
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        failed = self.replica.failure is not None
        self.replica.stop(self._clock.now())
        await self.transport.stop()
        for lane in set(self._lanes.values()):
            await asyncio.to_thread(lane.stop, STOP_SECONDS_MAX)
        if self._syncing:
            # Its end was posted by the thread that has ended now: one turn of the loop away.
            await asyncio.sleep(0)
        if self._syncing:
            raise NodeFailed(
                f"a sync of {self.config.node_id} did not end within {STOP_SECONDS_MAX} s; "
                "its files are left as after a crash, which the next start repairs"
            )
        self._parts.close(failed)

    # -- for callers -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal) -> None:
        """As `Replica.propose`: write now or raise `NotDone`; `done` tells how it ended."""
        largest = max(map(len, proposal.bodies))
        if largest > ENTRY_SIZE_LIMIT:  # a follower would refuse the frame
            raise EntryTooLarge(
                f"an entry has {largest} bytes and one frame holds {ENTRY_SIZE_LIMIT}; send less"
            )
        self.replica.propose(proposal, self._clock.now())
        self._after()

    def read_index(self, ready: Callable[[DledgerError | None], None]) -> None:
        """As `Replica.read_index`: `ready(None)` when a linearizable read may be served here."""
        self.replica.read_index(ready, self._clock.now())
        self._after()

    def transfer(self, to: NodeId | None, done: Callable[[DledgerError | None], None]) -> None:
        """As `Replica.transfer`: hand leadership to `to`, or to the best follower."""
        self.replica.transfer(to, done, self._clock.now())
        self._after()

    # -- Ports of the replica --------------------------------------------------------------------

    def send(self, to: NodeId, message: Message) -> None:
        self.transport.send(to, message)

    def start_sync(self, work: SyncWork) -> None:
        self._syncing += 1
        self._lanes[work.kind].submit(work)

    # -- events of the machine -------------------------------------------------------------------

    def _received(self, message: Message) -> None:
        if self._stopped:
            return
        try:
            self.replica.receive(message, self._clock.now())
            self._after()
        except MalformedFrame:
            raise  # the peer's fault: only that connection ends
        except Exception as error:  # whatever it is, this node cannot go on
            self._died(error)

    def _disconnected(self, peer: NodeId, lane: Lane, dialled: bool) -> None:
        """Only what we sent can be lost with a bulk connection; the peer's end tells its death."""
        if self._stopped:
            return
        bulk = lane is Lane.BULK and dialled
        control = lane is Lane.CONTROL
        if bulk or control:
            self.replica.disconnected(peer, self._clock.now(), bulk=bulk, control=control)
            self._after()

    def _sync_done(self, work: SyncWork, error: BaseException | None) -> None:
        self._syncing -= 1
        try:
            self.replica.sync_done(work, error, self._clock.now())
            self._after()
        except Exception as raised:  # as above
            self._died(raised)

    def _fire(self) -> None:
        self._timer, self._timer_at = None, _NEVER
        try:
            self.replica.timer(self._clock.now())
            self._after()
        except Exception as error:  # as above
            self._died(error)

    def _after(self) -> None:
        """After every event: one timer for the nearest deadline; is the node still whole?"""
        if self._stopped:
            return
        if self.replica.failure is not None:
            self._report_failure()
            return
        due = self.replica.deadline()
        if due >= self._timer_at:  # an early timer does no harm; it sets the next one
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        delay = max(TIMER_SECONDS_MIN, due - self._clock.now())
        self._timer = self._loop.call_later(delay, self._fire)

    def _died(self, error: BaseException) -> None:
        """A mistake of ours or of the state machine: stop loudly rather than limp."""
        _log.critical("%s: stopped by a mistake", self.config.node_id, exc_info=error)
        self.replica.fail(f"{type(error).__name__}: {error}")
        self._report_failure()

    def _report_failure(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, _NEVER
        failure = self.replica.failure
        if failure is not None and not self.failed.done():
            _log.critical("%s: %s", self.config.node_id, failure)
            self.failed.set_result(failure)

    def _noop_body(self, term: Term) -> Buffer:
        return noop_body(NodeId(self.config.node_id), term, self._clock.time_ms())
