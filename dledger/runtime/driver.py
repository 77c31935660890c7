"""One replica on a real machine: feeds events, carries sends and syncs out, sets one timer.

    sockets ──► Transport ──► replica.receive ─┐             ┌─► Transport.send
    timer ────► replica.timer ─────────────────┼─► Replica ──┤
    callers ──► replica.propose / read_index ──┤             └─► SyncThread "log", "hard"
    threads ──► replica.sync_done ─────────────┤                    │
    DiskCheck ► replica.looked ────────────────┘                    │
         ▲                                                          │
         └────────────── call_soon_threadsafe ◄─────────────────────┘

Everything but `SyncTask.run` happens on the event loop's thread. An idle node wakes for heartbeats
only, a quiet one (R30) by its host. Votes and the log have a queue each: neither waits (L2).

A node lives as a whole or not at all: what raises and a disk that fails end it (D5, `failed`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from commitlog.files.system import Buffer
from dledger.config import ENTRY_SIZE_LIMIT, RaftConfig
from dledger.core.configuration import Change, ChangeKind, Configuration
from dledger.core.events import Found
from dledger.core.messages import Message
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import DledgerError, EntryTooLarge, MalformedFrame, NodeFailed, NotLeader
from dledger.membership.generation import Generation
from dledger.membership.handshake import LinkKind
from dledger.membership.roster import Roster
from dledger.repair.repair import RepairSettings, RepairStatus
from dledger.replica.envelope import STAMP_AT, members_body, noop_body
from dledger.replica.freshness import Ready
from dledger.replica.ports import Proposal, SyncWork
from dledger.replica.replica import Replica
from dledger.replica.request_ids import draw_first_id
from dledger.runtime.candidacies import Candidacy
from dledger.runtime.clock import Clock, clock_for, seeded_jitter
from dledger.runtime.clock_telling import ClockTelling
from dledger.runtime.disk_check import DiskCheck, watch_of
from dledger.runtime.due_timer import DueTimer
from dledger.runtime.futures import OneEnd
from dledger.runtime.group_clock import GroupClock
from dledger.runtime.group_entries import GroupEntries
from dledger.runtime.owned import MISTAKES, Owned, tell_end
from dledger.runtime.parts import Parts
from dledger.runtime.renewal import Renewal
from dledger.runtime.repair_timer import RepairTimer
from dledger.runtime.shared import disk_queues, share_of
from dledger.runtime.sync_thread import QUEUE_OF, DiskQueue
from dledger.runtime.transport import Listener, Transport
from dledger.wire.bounds import check_numbers

_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS_MAX = 10.0  # a sync that takes longer is left behind; the log is not marked clean


class Driver:
    """Runs one `Replica`; see the module's text. Use from one event loop only.

    Attributes:
        clock: seconds as the rules are given them; the wall clock as the group agrees with it.
        hard: term and vote as they are on disk; the replica's status may be ahead of that.
        replica: for its status, role and log; do not call its event methods.
        failed: set to the reason when the node has stopped by itself; never set by `stop`.
        share: of the turns in which groups of this event loop apply entries.
    """

    def __init__(
        self,
        config: RaftConfig,
        parts: Parts,
        clock: Clock | None = None,
        owned: Owned | None = None,
    ) -> None:
        """`owned`: of the driver's owner; mistakes are reported to it from now on."""
        config.validate()
        self.owned = owned or Owned(self._died)
        self.owned.died = self._died
        self.config, self.hard, self.parts = config, parts.hard, parts
        host, clock = parts.host, clock or clock_for(config)
        self.clock = self._clock = GroupClock.of(config.node_id, clock, parts.clocks)
        jitter = seeded_jitter(config.seed)
        self.failed: asyncio.Future[NodeFailed] = self.owned.loop.create_future()
        calls = self._received, self._disconnected, self.owned, parts.forwarded, self._looked
        peers = Listener(*calls), jitter, parts.roster.vouch, parts.roster
        self.transport = Transport(config, parts.member, *peers, self._clock, host)
        self._telling = ClockTelling(self.transport, self.owned)
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
            first_id=draw_first_id(),
            applied=parts.applied,
            initial=parts.initial,
            configurations=GroupEntries(parts.group, parts.members_body or self._members_body),
            repair_settings=RepairSettings(config.scrub_bytes_per_second),
            prefix=parts.prefix(),
        )
        parts.roster.live_leader = self.replica.node.live_leader
        parts.generations.told_older = self._older
        told = self.transport.has_promised, self.transport.announce, self.owned, self.start_sync
        self._renewal = Renewal(parts.generations, *told, self._may_rest)
        self._follow()
        self.send = self.transport.send  # `Ports.send`
        self._sync_threads: dict[str, DiskQueue] = {}
        self._disk_check: DiskCheck | None = None
        self._syncing, self._end = 0, OneEnd()
        self._timer = DueTimer(self._fire, self.owned, parts.alarms)
        self._candidacy = Candidacy(parts.candidacies, self.owned, self.replica, self.tell)
        self.share = share_of(host, self.owned, partial(self.tell, self.replica.go_on))
        made = self._clock, self.replica, self._after, self.owned, parts.alarms
        self._repair_timer = RepairTimer(*made)
        self._stopped = self._rests = False
        self.settle_turn = parts.settle_turn
        #: Called with every configuration that takes effect, or does again.
        self.members_changed: list[Callable[[Configuration], None]] = []

    async def start(self) -> None:
        """Listen, dial, and take part. Raises OSError when the address is taken."""
        made = self.parts.host, self.config.node_id, self.owned, self._sync_done, self._clock.now
        queues = disk_queues(*made)
        self._sync_threads = {kind: queues[name] for kind, name in QUEUE_OF.items()}
        try:
            await self.transport.start()
        except BaseException:  # a cancellation, too: no caller has this driver yet to stop it
            await self.stop()
            raise
        self.replica.start(self._clock.now())
        self._after()
        self._repair_timer.fire()
        self._renewal.start()
        self._telling.start()
        if self.parts.host is not None:
            self.parts.host.join(self, self._looked)
        watch, is_alone = watch_of(self.config, queues), self.parts.host is None
        calls = self._clock, self._looked, self.start_sync, self.owned, self._may_rest
        self._disk_check = DiskCheck(self.config.node_id, watch, *calls, watches_loop=is_alone)
        self._disk_check.start()

    async def stop(self) -> None:
        """Stop taking part, let disk work end, close the storage; also if a call is cancelled."""
        failed = self.replica.failure is not None
        if not self._stopped:
            self._stopped = True
            self._timer.cancel()
            parts = self._telling, self._repair_timer, self._renewal, self._disk_check
            for part in (*parts, self._candidacy):
                if part is not None:
                    part.stop()
            self.replica.stop(self._clock.now())
        await self._end.wait(lambda: self._close(failed))

    async def _close(self, failed: bool) -> None:
        await self.transport.stop()
        stops = [thread.stop for thread in set(self._sync_threads.values())]
        await asyncio.gather(*(asyncio.to_thread(stop, STOP_SECONDS_MAX) for stop in stops))
        if self._syncing:  # its end was posted by the thread that has ended now: one turn away
            await asyncio.sleep(0)
        if self._syncing or not await self.parts.ended():
            raise NodeFailed(
                f"disk work of {self.config.node_id} does not end; its files are left as after a "
                "crash, which the next start repairs"
            )
        self.parts.close(failed or self.replica.disk_refused)
        if self.parts.host is not None:
            self.parts.host.closed(self)

    # -- for callers -----------------------------------------------------------------------------

    def propose(self, proposal: Proposal) -> None:
        """As `Replica.propose`: write now or raise `NotDone`; `done` tells how it ended."""
        largest = max(map(len, proposal.bodies))
        if largest > ENTRY_SIZE_LIMIT:  # a follower would refuse the frame
            raise EntryTooLarge(
                f"an entry has {largest} bytes and one frame holds {ENTRY_SIZE_LIMIT}; send less"
            )
        self._step(self.replica.propose, proposal, self._clock.now())

    def trim(self, position: int) -> bool:
        """As `Replica.trim`: begin to delete the log's files below `position`."""
        return self._step(self.replica.trim, position)

    def read_index(self, ready: Ready, staleness: float = 0.0) -> None:
        """As `Replica.read_index`: `ready(None)` when such a read may be served here."""
        self._step(self.replica.read_index, ready, self._clock.now(), staleness)

    def tell_commit(self, to: NodeId) -> None:
        """As `Replica.tell_commit`."""
        self._step(self.replica.tell_commit, to, self._clock.now())

    def transfer(self, to: NodeId | None, done: Callable[[DledgerError | None], None]) -> None:
        """As `Replica.transfer`: hand leadership to `to`, or to the best follower."""
        self._step(self.replica.transfer, to, done, self._clock.now())

    def change(
        self, kind: ChangeKind, node: NodeId, done: Callable[[DledgerError | None], None]
    ) -> None:
        """Change the group by one step; `done` tells how it ended. Raises MembershipRefused."""
        if self.replica.node.role is not Role.LEADER:
            raise NotLeader(self.replica.node.leader)
        change = self.change_of(kind, node)
        self._step(self.settle_turn)
        self._step(self.replica.change_members, change, done, self._clock.now(), self.incarnations)

    def _step(self, step: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call the replica for a caller, which may forgive errors; no refusal ends the node."""
        try:
            found = self.owned.on_own_behalf(step, *args, **named)
            self._after()
            return found
        except DledgerError:
            raise
        except MISTAKES as error:  # whatever it is, this node cannot go on
            self._died(error)
            raise NodeFailed(f"this node has stopped ({error}); ask another one") from error

    def report_disk_space(self, low: str, full: str) -> None:
        """Why the service refuses producers, and why it cannot apply entries; "": it does."""
        if self._disk_check is not None:
            self._disk_check.report_disk_space(low, full)

    @property
    def incarnations(self) -> dict[NodeId, int]:
        """The incarnation of this node and of each that it has met."""
        return self.parts.roster.incarnations()

    @property
    def generation(self) -> Generation:
        """Which copy of this node's folder this is; NO_GENERATION when none could be written."""
        return self.parts.generations.current

    def change_of(self, kind: ChangeKind, node: NodeId) -> Change:
        """The change with all that is known of `node`. Raises MembershipRefused."""
        return self.parts.roster.change(kind, node)

    @property
    def members(self) -> Configuration:
        """The group, as the newest configuration in this replica's log has it."""
        return self.replica.node.configuration

    @property
    def roster(self) -> Roster:
        """The members and visitors, with the values of their hellos."""
        return self.parts.roster

    def scrub(self) -> None:
        """Begin to read the whole log for damage now, unless that is under way."""
        assert self.replica.repair is not None
        self.replica.repair.scrub_now(self._clock.now())
        self._repair_timer.fire()

    @property
    def repair_status(self) -> RepairStatus:
        """The damaged ranges, and the scrubber's progress."""
        repair = self.replica.repair
        assert repair is not None, "every log in files is repaired"
        return repair.status()

    def now(self) -> float:
        """Seconds on the clock that the rules are given."""
        return self._clock.now()

    # -- Ports of the replica --------------------------------------------------------------------

    def start_sync(self, work: SyncWork) -> None:
        """Hand the work to the threads of its kind; the replica is told of its end later."""
        if self._rests:
            self._wake()
        self._syncing += 1
        self._sync_threads[work.kind].submit(work)

    def configuration_changed(self, configuration: Configuration, index: Index) -> None:
        """Use the new members for connections and clock, and tell `members_changed`."""
        self._follow()
        for told in self.members_changed:
            told(configuration)

    def _follow(self) -> None:
        self.parts.roster.follow(self.replica.node.configuration)
        self.transport.follow(self.replica.node.configuration)
        self._clock.follow(self.replica.node.configuration.names)

    # -- events of the machine -------------------------------------------------------------------

    def _received(self, message: Message) -> None:
        if self._stopped:
            return
        try:
            check_numbers(message, self.replica.node.term)
            self.replica.receive(message, self._clock.now())
            self._after()
        except MalformedFrame:
            raise  # the peer's fault: only that connection ends
        except MISTAKES as error:  # as in `_step`
            self._died(error)

    def _disconnected(self, peer: NodeId, link_kind: LinkKind, dialled: bool) -> None:
        """Tell the rules of a broken connection; of bulk ones, only if we dialled it."""
        bulk, control = link_kind is LinkKind.BULK and dialled, link_kind is LinkKind.CONTROL
        if not self._stopped and (bulk or control):
            parted = partial(self.replica.disconnected, peer, bulk=bulk, control=control)
            self.owned.run(self.tell, parted)

    def tell(self, event: Callable[[float], None]) -> None:
        """Have the replica handle an event at the present time; called through `owned`."""
        event(self._clock.now())
        self._after()

    def _sync_done(self, work: SyncWork, error: BaseException | None) -> None:
        self._syncing -= 1
        if work.kind == "generations":
            self._renewal.ended(error)
            return
        if self._disk_check is not None and not self._stopped:
            self._disk_check.ended(work, error)
        self.replica.sync_done(work, error, self._clock.now())
        self._after()
        if work.kind == "mend":
            self._repair_timer.fire()

    def _looked(self, found: Found) -> None:
        if not self._stopped and self.replica.failure is None:
            self.replica.looked(found, self._clock.now())
            self._after()

    def _may_rest(self) -> bool:
        """May a part that looks at this node now and then stop doing so, until `_wake`?"""
        self._rests |= (rests := self.parts.may_rest(is_quiet=self.replica.node.is_quiet))
        return rests

    def _wake(self) -> None:
        self._rests = False
        if not self._stopped and self._disk_check is not None:
            self._disk_check.wake()
            self._renewal.wake()

    def _fire(self) -> None:
        self.settle_turn()
        self._candidacy.timer(self._clock.now())
        self._after()

    def _after(self) -> None:
        """After every event: one timer for the nearest deadline; is the node still whole?"""
        if self._stopped:
            return
        if self.replica.failure is not None:
            self._report_failure()
            return
        self._candidacy.look()
        if self.replica.pace.is_behind:
            self.share.wait()
        due = self.replica.deadline()
        if due >= self._timer.at:  # an early timer does no harm; it sets the next one
            return
        self._timer.set(due, self._clock.now(), quiet=(quiet := self.replica.node.is_quiet))
        if self._rests and not quiet:  # who wakes has an earlier deadline than before
            self._wake()

    def _died(self, error: BaseException) -> None:
        """A mistake of ours or of the state machine, or a disk that refused its files: stop."""
        now, applied = self.replica.status(), self.replica.applied
        where = f"{now.role.name.lower()} of term {now.term}, with its log up to {now.last.index}"
        where += f", committed up to {now.commit} and applied up to {applied}"
        tell_end(_log, self.config.node_id, where, error)
        named = error if isinstance(error, NodeFailed) and type(error) is not NodeFailed else None
        self.replica.fail(f"{type(error).__name__}: {error}", named)
        self._report_failure()

    def _older(self, sentence: str) -> None:
        """Stop for good: the folder is an older copy of itself, so its promises may be broken."""
        self.replica.fail(sentence)
        self._report_failure()

    def _report_failure(self) -> None:
        self._timer.cancel()
        failure = self.replica.failure
        if failure is not None and not self.failed.done():
            _log.critical("%s: %s", self.config.node_id, failure)
            self.failed.set_result(failure)
            self.transport.cut()

    def _noop_body(self, term: Term) -> Buffer:
        return noop_body(NodeId(self.config.node_id), term, self._clock.time_ms())

    def _members_body(self, group: Configuration) -> Buffer:
        return members_body(group, self._clock.time_ms())
