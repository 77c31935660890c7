"""ReplicatedLog: one replica of a Raft log inside your program.

    append / append_many ─► the turn's batch ─► one Proposal ─► … ─► futures get their indexes
    committed(after=…)   ◄─ entries up to applied, in order, then as they come
    read(index)          ◄─ after a ReadIndex round: what was acknowledged anywhere is seen, or
                            all of it that is older than a bound

All that is appended in one turn of the event loop is one proposal: one write, one frame a follower,
and (with what came while the last one ran) one fdatasync.

An entry is your bytes, nothing added. With `producer` and `sequence` it is wrapped in an envelope
(envelope.py), so that a retry after an `OutcomeUnknown` is stored once (producers.py).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence

from commitlog.files.system import OS_FILES, Buffer, FileSystem
from dledger.config import RaftConfig
from dledger.core.configuration import ChangeKind, Member
from dledger.core.types import Index, NodeId, Role, Term
from dledger.errors import LogUsageError, NodeFailed
from dledger.log.port import LogStore
from dledger.producers.durability import Durability
from dledger.replica.envelope import ENVELOPE_MAGIC, Tag
from dledger.replica.ports import Proposal, StateMachine
from dledger.runtime.applied import Applied, taken_of
from dledger.runtime.clock import Clock, clock_for
from dledger.runtime.driver import Driver
from dledger.runtime.futures import resolve
from dledger.runtime.lifetime import Lifetime
from dledger.runtime.log_entry import LogEntry, LogStatus, check_body, entry_of
from dledger.runtime.opening import format_folder, open_aside
from dledger.runtime.owned import Owned
from dledger.runtime.parts import Parts
from dledger.runtime.role_story import RoleStory
from dledger.runtime.tagging import Tagging
from dledger.runtime.turn import Turn

#: Entries handed out between two looks at the event loop: a slow disk must not stop heartbeats.
_CHUNK_COUNT = 64


class ReplicatedLog(Lifetime):
    """One replica; see the module's text. `async with` starts and stops it.

    `machine`: told of committed entries and role changes on the event loop, before the futures of
    the entries resolve; it must not block. `extend`: adds to the parts that `start` has opened.
    `entry_size_max`: bytes of the largest entry that it takes; `owned`: calls of its loop; `look`:
    reads of opened parts in their thread, before `extend`.
    """

    def __init__(
        self,
        config: RaftConfig,
        machine: StateMachine | None = None,
        *,
        files: FileSystem = OS_FILES,
        clock: Clock | None = None,
        extend: Callable[[Parts], Parts] | None = None,
    ) -> None:
        config.validate()
        self.config = config
        self._machine, self._files, self._extend = machine, files, extend or (lambda parts: parts)
        self._clock = clock or clock_for(config)
        self.look: Callable[[Parts], object] = lambda _: None
        self._driver: Driver | None = None
        self._life = asyncio.Lock()  # of `start` and `close`
        self._store: LogStore | None = None
        self.entry_size_max = config.entry_size_max
        self._failure: NodeFailed | None = None
        self.is_open, self._applied = False, Applied()  # open: started, not known to have failed
        self._story = RoleStory(NodeId(config.node_id))
        self._leader_waiting: list[asyncio.Future[str]] = []
        self.owned = Owned(self._stopped_by)
        self._turn = Turn(self.propose, self.owned)
        self._tagging = Tagging(config.producers_max, self._clock, self.propose, self.owned)

    # -- life ------------------------------------------------------------------------------------

    @classmethod
    def format(
        cls, config: RaftConfig, *, joins: bool = False, files: FileSystem = OS_FILES
    ) -> None:
        """Make `config.data_dir` the folder of a new replica; once in its life, never by itself.

        `joins`: a running group will take it in (`add_member`, `readmit_member`); until then it
        does nothing.
        Raises LogUsageError without `config.cluster_id`, StoreLayoutError when it is in use.
        """
        format_folder(config, joins=joins, files=files)

    async def start(self) -> None:
        """Recover the folder, listen, and take part.

        Raises NotFormatted, WrongIdentity, StoreLocked, HardStateLost, LogDamaged, OSError.
        """
        async with self._life:
            assert self._driver is None, "a ReplicatedLog is started once"
            parts = await open_aside(self.config, self, self.look, self._files, self._clock)
            try:
                parts = self._extend(parts)
            except BaseException:
                parts.close(False)  # no driver does
                raise
            self._store = parts.log
            self.entry_size_max = min(self.config.entry_size_max, parts.log.body_size_max)
            self._tagging.bind(parts.log)
            self._driver = Driver(self.config, parts, self._clock, self.owned)
            self.owned.when_done(self._driver.failed, self._driver_failed)
            await self._driver.start()
            self.is_open = True

    def _driver_failed(self, failed: asyncio.Future[NodeFailed]) -> None:
        if not failed.cancelled():  # the loop ended before the replica did
            self._fail(failed.result())

    async def close(self) -> None:
        """Leave the group cleanly; idempotent. Pending calls end with OutcomeUnknown."""
        async with self._life:  # a start that is under way ends first
            if self._driver is not None:
                await self._driver.stop()
                self._fail(NodeFailed("this replica was closed; start a new one on its folder"))

    # -- writing ---------------------------------------------------------------------------------

    def append(
        self,
        body: Buffer,
        *,
        producer: str | None = None,
        sequence: int = -1,
        stream: str = "",
        durability: Durability = Durability.MAJORITY_ON_DISK,
    ) -> asyncio.Future[Index]:
        """Append one entry; await the result for its index, once it is committed and applied.

        A weaker `durability` is answered earlier, before the entry is committed; what it risks is
        said in durability.py. Numbered entries have none: a repeat must find the first one.

        With `producer`, `sequence` must count 0, 1, 2, … per (producer, stream); a number that is
        stored already is not stored again, and its index is the answer (-1 when it is too long ago
        to be known).

        Raises EntryTooLarge and LogUsageError at once. The future raises NotLeader, QueueFull,
        Transferring, SequenceGap (certainly not done), OutcomeUnknown (maybe), NodeFailed.
        """
        if len(body) > self.entry_size_max or body[4:8] == ENVELOPE_MAGIC:
            check_body(body, self.entry_size_max)
        if not self.is_open:
            self._running()  # raises
        if producer is None:
            if self._tagging.requests:
                self._tagging.flush()
            return self._turn.append(body, durability)
        if durability is not Durability.MAJORITY_ON_DISK:
            raise LogUsageError(
                f"a numbered entry cannot be answered at {durability.value}: a repeat of it may "
                "come before it is committed; leave durability or producer out"
            )
        self._turn.flush()
        return self._tagging.append(Tag(producer, stream, sequence), body)

    def append_many(self, bodies: Sequence[Buffer]) -> asyncio.Future[range]:
        """Append entries side by side, all or none; await their indexes. Raises as `append`."""
        if not bodies:
            raise LogUsageError("append_many needs at least one body")
        for body in bodies:
            check_body(body, self.entry_size_max)
        self._running()
        self._tagging.flush()
        return self._turn.append_many(bodies)

    def append_at_once(self, bodies: Sequence[Buffer]) -> asyncio.Future[range]:
        """As `append_many`, in this turn of the loop, of bodies that do not begin as envelopes."""
        if not bodies or max(map(len, bodies)) > self.entry_size_max:
            return self.append_many(bodies)  # raises
        self._running()
        self._tagging.flush()
        return self._turn.append_at_once(bodies)

    def propose(self, proposal: Proposal) -> None:
        """The lowest door: written when this returns, `proposal.done` is called when it is decided.

        Nothing is checked or collected. Raises NotDone, NodeFailed. Not from inside `apply`.
        """
        self._running().propose(proposal)

    async def transfer(self, to: str | None = None) -> None:
        """Hand leadership to `to`, or to the best follower; returns when it happened.

        Raises NotLeader, Transferring, QueueFull (the target lags too far behind).
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running().transfer(None if to is None else NodeId(to), resolve(done))
        await done

    # -- the group -------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[Member, ...]:
        """The group, as the newest configuration in this replica's log has it."""
        return self._running().replica.node.configuration.members

    async def add_member(self, node: str, *, learner: bool = False) -> None:
        """Take in a node that was formatted to join and has called; committed when this returns.

        It is sent the log, and made a voter when it keeps pace; a learner stays without a vote
        until it is added once more. Raises NotLeader, MembershipRefused, OutcomeUnknown.
        """
        await self._change(ChangeKind.ADD_LEARNER if learner else ChangeKind.ADD, node)

    async def remove_member(self, node: str) -> None:
        """Let a node go, this one included. Raises as `add_member`."""
        await self._change(ChangeKind.REMOVE, node)

    async def readmit_member(self, node: str) -> None:
        """Take back a voter that lost its disk and was formatted to join (R6).

        It keeps its place in the quorum and is not counted until it has the log again. Raises as
        `add_member`.
        """
        await self._change(ChangeKind.READMIT, node)

    async def _change(self, kind: ChangeKind, node: str) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running().change(kind, NodeId(node), resolve(done))
        await done

    # -- reading ---------------------------------------------------------------------------------

    async def read(self, index: int, *, staleness: float = 0.0) -> LogEntry:
        """One committed entry.

        Linearizable: it sees all that was acknowledged to any caller before, at the price of
        one round to a majority. With `staleness`, what was acknowledged in the last so many seconds
        may be missed, and rounds are that rare (freshness.py); `math.inf` asks nobody. Raises
        IndexError when the index is not committed (as far as seen), NotLeader and others when no
        round succeeds.
        """
        if staleness < math.inf:
            await self.read_barrier(staleness)
        store, last = self._opened(), self._applied.index
        if not store.first_index <= index <= last:
            raise IndexError(
                f"entry {index} is not among the committed {store.first_index} to {last}"
            )
        return entry_of(store.entry(Index(index)))

    async def read_barrier(self, staleness: float = 0.0) -> Index:
        """Wait until all that was acknowledged up to `staleness` seconds ago is applied here.

        The last applied index. Raises as `read`.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running().read_index(resolve(done), staleness)
        await done
        return self._applied.index

    async def committed(self, after: int = -1) -> AsyncIterator[LogEntry]:
        """Every committed entry behind index `after`, in order, for ever; no-ops are left out.

        Raises IndexError when that part of the log is deleted, NodeFailed when the replica stops.
        """
        store, index = self._opened(), after + 1
        if index < store.first_index:
            raise IndexError(f"the log begins at {store.first_index}, behind entry {index}")
        while True:  # until the caller has enough, or the replica stops
            await self.wait(index)
            last = min(self._applied.index, index + _CHUNK_COUNT - 1)
            for entry in [entry_of(entry) for entry in store.entries(Index(index), Index(last))]:
                if not entry.noop:
                    yield entry
            index = last + 1
            await asyncio.sleep(0)

    async def wait(self, index: int) -> None:
        """Until entry `index` is committed and applied here. Raises NodeFailed."""
        if index > self._applied.index:
            self._running()
            await self._applied.reach(index)

    async def wait_for_leader(self) -> str:
        """Until a leader is known; its node id. Raises NodeFailed."""
        self._running()
        if self._story.leader:
            return self._story.leader
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._leader_waiting.append(done)
        return await done

    # -- looking ---------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Does this replica lead, as far as it knows?"""
        return self._story.role is Role.LEADER

    @property
    def leader(self) -> str | None:
        """The leader, as far as this replica knows."""
        return self._story.leader

    @property
    def applied(self) -> Index:
        """Highest index that is committed and applied here, -1 for none."""
        return self._applied.index

    @property
    def driver(self) -> Driver:
        """The replica's shell, for layers above. Raises NodeFailed when it does not run."""
        return self._running()

    @property
    def store(self) -> LogStore:
        """The entries as they are on disk; read only, and only up to `applied`."""
        return self._opened()

    def status(self) -> LogStatus:
        """A picture of this replica. Raises NodeFailed when it was never started."""
        store, driver = self._opened(), self._driver
        assert driver is not None
        return LogStatus(
            driver.replica.status(),
            self._applied.index,
            store.first_index,
            store.end_position,
            self._applied.waiting_count,
            driver.transport.status(),
            driver.replica.node.disk,
            *driver.replica.node.reads_served,
            self._applied.seconds,
        )

    # -- StateMachine ----------------------------------------------------------------------------

    def apply(self, first: Index, last: Index) -> Index:
        """Called by the replica."""
        if self._machine is not None:
            assert self._driver is not None, "it applies"
            share = self._driver.share
            if not share.ask():
                return Index(first - 1)
            begun = self.owned.time()
            taken = self._machine.apply(first, last)
            last = last if taken is None else taken_of(taken, first, last, held=share.held)
            share.took(seconds := self.owned.time() - begun)
            self._applied.seconds += seconds
        self._tagging.applied(first, last)
        self.state_is(last)
        return last

    def state_is(self, last: Index) -> None:
        """All that entries up to `last` led to is here, by applying them or as another's state."""
        self._applied.moved(last)

    def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
        """Called by the replica."""
        if role is Role.LEADER:
            self._tagging.leadership_began()
        else:
            self._tagging.leadership_ended()
        self._story.told(role, term, leader)
        if self._machine is not None:
            self._machine.role_changed(role, term, leader)
        if leader is not None:
            waiting, self._leader_waiting = self._leader_waiting, []
            for done in waiting:
                if not done.done():
                    done.set_result(leader)

    # -- inside ----------------------------------------------------------------------------------

    def _opened(self) -> LogStore:
        if self._store is None:
            raise NodeFailed("this replica was not started; use `async with` or `start`")
        return self._store

    def _running(self) -> Driver:
        driver = self._driver
        if driver is None:
            raise NodeFailed("this replica was not started; use `async with` or `start`")
        if driver.replica.failure is not None:
            raise self._failure or driver.replica.failure
        return driver

    def _stopped_by(self, error: BaseException) -> None:
        raise AssertionError("the driver is told, and nothing is called before it is there")

    def _fail(self, failure: NodeFailed) -> None:
        self.is_open, self._failure = False, (failure := self._failure or failure)
        self._tagging.fail(failure)
        self._applied.fail(failure)
        waiting, self._leader_waiting = self._leader_waiting, []
        for done in waiting:
            if not done.done():
                done.set_exception(failure)
