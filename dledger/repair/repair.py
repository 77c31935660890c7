"""A replica repairs its own log: finds damage, keeps apart from it, gets the entries from peers.

    a read fails ─┐                       ┌─► DamageNoted ─► the rules: no stand, no lead, nothing
    the scrubber ─┴─► scrub (thread) ─► damaged?             from there on is acknowledged (R2)
                         ▲                └─► own memory, or RangeRequest ─► a peer ─► RangeReply
                         └── look again ◄── restore (thread) ◄── is it the same entry? ◄──┘

No sockets, no clock. The shell calls `tend` when it is due; all the disk work is `SyncWork` of the
kind "mend", one piece at a time. Peers need no leader for it: an entry of the same index and term
is the same everywhere.

Damage that a majority of the voters cannot undo is given up for now: the range is refused (every
read of it fails and says why), the node takes part again, and peers are asked at long intervals.
Where a peer has deleted it, the rules are told that a state is needed (core/snapshots.py): with it
our log begins behind the damage as well, and a state machine gets past what it could not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from commitlog.errors import StoreDamaged
from dledger.core import events as ev
from dledger.core.messages import Message, RangeReply, RangeRequest
from dledger.core.node import RaftNode
from dledger.core.quorum import has_majority
from dledger.core.types import NO_INDEX, Index, NodeId
from dledger.errors import RangeRejected
from dledger.log.check import Tail
from dledger.log.damage import Damage
from dledger.log.file_log import FileLog
from dledger.log.port import LogRange, ReceivedRange
from dledger.repair.scrub import Scrub
from dledger.repair.scrubber import Restore, Scrubber
from dledger.replica.ports import Ports, SyncWork
from dledger.replica.ranges import received
from dledger.wire.repair_messages import as_append

NEVER = float("inf")
#: A peer that does not answer within it is passed over: two election timeouts of the slowest kind.
ASK_SECONDS = 1.0
#: Between two rounds of asking for what nobody had.
ASK_AGAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """How fast the scrubber reads, and how often it begins anew.

    Attributes:
        bytes_per_second: 0 switches the scrubber off; damage that a read meets is repaired anyway.
        piece_bytes: of one look; a whole record at least.
        first_after: seconds from the start to the first pass: starting is busy enough.
        pause: seconds between the end of one pass and the begin of the next.
    """

    bytes_per_second: int = 4 << 20
    piece_bytes: int = 256 << 10
    first_after: float = 60.0
    pause: float = 3600.0


@dataclass(frozen=True, slots=True)
class RepairStatus:
    """A picture. `refused`: those of `damaged` that no majority can undo. Counts since the start.

    `pass_share`: how much of the log the pass under way has seen, 1.0 between passes.
    """

    damaged: tuple[Damage, ...] = ()
    refused: tuple[Damage, ...] = ()
    scrubbing: bool = False
    pass_share: float = 1.0
    passes: int = 0
    scrubbed_bytes: int = 0
    found: int = 0
    restored_entries: int = 0
    mended_slots: int = 0


class Repair:
    """The repair of one replica; `Replica` owns it."""

    def __init__(
        self,
        log: FileLog,
        node: RaftNode,
        ports: Ports,
        settings: RepairSettings,
        now: float,
        tell: Callable[[ev.Event], None],
        resume: Callable[[], None],
        new_id: Callable[[], int],
    ) -> None:
        """`tell`: gives the rules an event; `resume`: applies the entries that were held back.

        `new_id`: of a request, see request_ids.py.
        """
        self._log, self._node, self._ports, self._settings = log, node, ports, settings
        self._scrubber = Scrubber(log)
        self._tell_rules, self._resume, self._new_id = tell, resume, new_id
        self._busy = self._holding = self.stopped = False
        self._suspects: frozenset[Index] = frozenset()
        self._told = self._state_needed = NO_INDEX
        #: First entries of ranges that are given up for now.
        self._refused: frozenset[Index] = frozenset()
        self._asked: tuple[int, Index, NodeId] | None = None
        self._asked_at = -NEVER
        self._arrived: ReceivedRange | None = None
        self._turn = 0
        self._tried: frozenset[NodeId] = frozenset()  # who was asked for the range
        self._without: frozenset[NodeId] = frozenset()  # who has answered that it has not got it
        #: The log's anchor while the state there is lost, -1: it is not. Nothing is applied then.
        self.lacking = NO_INDEX
        self._state_asked_at = -NEVER
        self._anchors: dict[NodeId, Index] = {}  # up to where peers have deleted their logs
        self._scrub_at = now + settings.first_after if settings.bytes_per_second else NEVER
        self._cursor: Tail | None = None
        self._passing = False
        log.reader.cold.when_damaged = self._suspect

    def began(self) -> None:
        """The replica starts: tell the rules of the damage found by recovery, first of all."""
        self._tell()

    # -- what the shell calls --------------------------------------------------------------------

    def tend(self, now: float) -> float:
        """Do one due piece of work; return the time of the next call, s."""
        if self._busy:
            return NEVER  # its end is followed by another call
        if self._arrived is not None:
            source, self._arrived = self._arrived, None
            self._answered(source, now)
            return NEVER if self._busy else now
        if self._suspects:
            self._look_at(min(self._suspects))
            return NEVER if self._busy else now
        wanted = self._wanted(now)
        if wanted is not None:
            return self._fetch(wanted, now)
        if self.lacking >= 0 and now >= self._state_due():
            self._need_state(self.lacking, None)
            self._state_asked_at = now
        if now >= self._scrub_at:
            self._go_on(now)
            return NEVER if self._busy else now
        return min(self._scrub_at, self._ask_due(), self._state_due())

    def _state_due(self) -> float:
        return NEVER if self.lacking < 0 else self._state_asked_at + ASK_SECONDS

    def scrub_now(self, now: float) -> None:
        """Begin a pass, unless one is under way. Also when the scrubber is off, at the set rate."""
        if not self._passing:
            self._scrub_at = now

    def ended(self, work: SyncWork, now: float) -> None:
        """Work of kind "mend" went well."""
        self._busy = False
        task = work.task
        if isinstance(task, Scrub):
            self._scrubbed_one(task, now)
        else:
            assert isinstance(task, Restore)
            self._scrubber.finish_restore(task)
            self._suspects |= {Index(task.verified.source.prev.index + 1)}
        self._tell()
        self._go_on_applying()

    def began_anew(self, applied: Index) -> None:
        """The log may begin elsewhere, and the state machine have been given a state."""
        if self.lacking <= applied:
            self.lacking = NO_INDEX
        self._tell()
        self._go_on_applying()

    def _go_on_applying(self) -> None:
        if self._holding and not self._suspects:
            self._holding = False
            self._resume()

    def whole_through(self, first: Index, last: Index) -> Index:
        """Up to where entries `first`..`last` may be applied; the rest is when it is repaired."""
        whole = (
            self._log.reader.whole_through(first, last) if self.lacking < 0 else Index(first - 1)
        )
        self._holding |= whole < last
        return whole

    def status(self) -> RepairStatus:
        """Damaged and refused ranges, the share of the pass under way, and all counts."""
        log, damaged = self._log, self._log.damaged
        share = 1.0
        if self._passing and self._cursor is not None and log.end_position > log.first_position:
            share = self._cursor.end - log.first_position
            share /= log.end_position - log.first_position
        return RepairStatus(
            damaged,
            tuple(d for d in damaged if d.first in self._refused),
            self._passing,
            share,
            self._scrubber.passes,
            self._scrubber.read_bytes,
            self._scrubber.found,
            self._scrubber.restored_entries,
            self._scrubber.mended_slots,
        )

    # -- looking ---------------------------------------------------------------------------------

    def _suspect(self, index: Index) -> None:
        """A read has met a record that is not valid: look at it as soon as possible."""
        known = any(damage.first <= index <= damage.last for damage in self._log.damaged)
        if known or self.stopped:
            return
        self._suspects |= {index}
        if not self._busy:
            self._look_at(index)

    def _look_at(self, index: Index) -> None:
        self._suspects -= {index}
        self._begin(self._scrubber.begin_scrub(self._scrubber.start_before(index), 1))

    def _go_on(self, now: float) -> None:
        """The next piece of a pass."""
        self._passing = True
        task = self._scrubber.begin_scrub(self._cursor, self._settings.piece_bytes)
        if task is None:
            self._end_pass(now)
        else:
            self._cursor = task.start
            self._begin(task)

    def _end_pass(self, now: float) -> None:
        self._scrubber.passes += self._passing
        self._passing, self._cursor = False, None
        self._scrub_at = now + self._settings.pause if self._settings.bytes_per_second else NEVER

    def _scrubbed_one(self, task: Scrub, now: float) -> None:
        known = self._log.damaged
        behind = self._scrubber.finish_scrub(task)
        self._scrubber.found += len(set(self._log.damaged) - set(known))
        self._scrubber.read_bytes += task.read_bytes
        if not self._passing or task.start is not self._cursor:
            return
        self._cursor = behind
        self._scrub_at = now + task.read_bytes / (self._settings.bytes_per_second or 1 << 20)
        if behind is None:
            self._end_pass(now)

    def _begin(self, task: Scrub | Restore | None) -> None:
        if task is not None:
            self._busy = True
            self._ports.start_sync(SyncWork("mend", task))

    # -- what others are told --------------------------------------------------------------------

    def _tell(self) -> None:
        """The rules hear of the lowest damage that is not given up, when it is another one."""
        damaged = self._log.damaged
        self._refused &= {damage.first for damage in damaged}
        if self._state_needed >= 0 and self._state_needed not in (
            self.lacking,
            *self._refused,
        ):
            self._state_needed = NO_INDEX
            self._tell_rules(ev.StateNeeded(NO_INDEX))
        first = min((d.first for d in damaged if d.first not in self._refused), default=NO_INDEX)
        if first != self._told:
            self._told = first
            self._tried = frozenset()
            self._without = frozenset()
            self._tell_rules(ev.DamageNoted(first))
            self._tell_rules(ev.EntriesFlushed(self._log.flushed))

    def receive(self, message: Message, now: float) -> None:
        """A peer asks, or answers."""
        if isinstance(message, RangeRequest):
            self._ports.send(message.sender, self._answer(message))
        elif isinstance(message, RangeReply) and self._asked is not None:
            request_id, _, peer = self._asked
            if (message.request_id, message.sender) == (request_id, peer):
                self._arrived = received(as_append(message))
                self.tend(now)

    def _answer(self, request: RangeRequest) -> RangeReply:
        """Verified entries, or none: then the peer asks another one, for any reason."""
        log, prev = self._log, request.prev
        me, nothing = self._node.node_id, prev.index
        try:
            if log.id_of(prev.index) == prev:
                size_max = min(request.size_max, self._node.config.frame_bytes_max)
                found = log.read_range(Index(prev.index + 1), request.last, size_max)
                return RangeReply(
                    me,
                    request.request_id,
                    found.prev,
                    found.last,
                    found.runs,
                    found.position,
                    found.prev_chain_crc,
                    found.size,
                    found.parts,
                )
        except (IndexError, StoreDamaged):
            pass  # it is not here, or damaged here as well, which has been noted
        if prev.index < log.anchor.index:
            prev, nothing = log.anchor, log.anchor.index  # what was asked for is deleted here
        return RangeReply(me, request.request_id, prev, nothing)

    # -- getting entries back --------------------------------------------------------------------

    def _wanted(self, now: float) -> Damage | None:
        """The damage to undo now: the lowest that is not given up, else one that is."""
        if now < self._ask_due():
            return None
        damaged = self._log.damaged
        return min(damaged, key=lambda d: (d.first in self._refused, d.first), default=None)

    def _ask_due(self) -> float:
        damaged = self._log.damaged
        if not damaged:
            return NEVER
        given_up = all(damage.first in self._refused for damage in damaged)
        given_up &= self._state_needed < 0
        return self._asked_at + (ASK_AGAIN_SECONDS if given_up else ASK_SECONDS)

    def _fetch(self, damage: Damage, now: float) -> float:
        """From our own memory, else from the next peer."""
        self._asked_at, refused = now, damage.first in self._refused
        size_max = self._node.config.frame_bytes_max
        own = self._scrubber.own_range(damage, size_max)
        if own is not None and self._restore(own):
            return NEVER
        peers = [name for name in self._node.configuration.names if name != self._node.node_id]
        if self._tried.issuperset(peers):
            self._nobody_has(damage)
            self._ask_for_state()
        if not peers or (damage.first in self._refused) is not refused:
            return self._ask_due()
        self._turn += 1
        request_id, peer = self._new_id(), peers[self._turn % len(peers)]
        self._tried |= {peer}
        self._asked = request_id, damage.first, peer
        prev = self._log.id_of(Index(damage.first - 1))
        me = self._node.node_id
        self._ports.send(peer, RangeRequest(me, request_id, prev, damage.last, size_max))
        return self._ask_due()

    def _answered(self, source: ReceivedRange, now: float) -> None:
        assert self._asked is not None
        _, first, peer = self._asked
        self._asked = None
        if source.size:
            if self._restore(source):
                self._asked_at = -NEVER  # what is left of the range is asked for at once
            return
        self._without |= {peer}
        self._anchors[peer] = source.prev.index
        damage = next((d for d in self._log.damaged if d.first == first), None)
        if damage is not None and damage.first not in self._refused:
            self._fetch(damage, now)  # the next one at once

    def _nobody_has(self, damage: Damage) -> None:
        """All were asked. When a majority has not got it, the range is refused, not the node."""
        lacking = {self._node.node_id, *self._without}
        settled = damage.last <= self._settled()
        if settled and has_majority(lacking, self._node.configuration.quorum):
            self._refused |= {damage.first}
            self._tell()

    def _ask_for_state(self) -> None:
        """Ask for a snapshot for a damaged range that cannot be repaired, from a node that already
        deleted that range."""
        for first in sorted(self._refused):
            holder = next((p for p, anchor in self._anchors.items() if anchor >= first), None)
            if holder is not None:
                self._need_state(first, holder)
                return

    def _need_state(self, first: Index, holder: NodeId | None) -> None:
        self._state_needed = first
        self._tell_rules(ev.StateNeeded(first, holder))

    def _settled(self) -> Index:
        """The index up to which no entry can be truncated any more."""
        return max(self._node.commit, self._log.commit_hint)

    def _restore(self, source: LogRange | ReceivedRange) -> bool:
        """Begin to put entries back, if they are the same ones."""
        try:
            task = self._scrubber.begin_restore(source)
        except RangeRejected:
            return False
        self._begin(task)
        return task is not None
