"""This node's commands on their way to their results: sent to the leader until they are applied.

    propose ─► queued ─► taken by the leader (here or by FORWARD) ─► applied here: the result
                 ▲              │ refused, not answered, another leads
                 └──────────────┘        until its time is over: NotDone or OutcomeUnknown

Sending again is safe because each command has a number in a session (sessions.py), which this node
opens with its first command. A result is that of the apply on this very node: who has it reads its
own write here, and nobody needs to send results.

A session that has gone (an idle hour, too many) is followed by a new one. What was proposed in it
and has no result here was not applied and never will be, so it goes on in the new one; only what
another node's state has swallowed since then ends as OutcomeUnknown. One that is late keeps its
number for a while, and can be asked for again (outstanding.py).

No clock, loop or socket: the shell (node.py) and the simulator drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dledger.core.types import NodeId
from dledger.errors import (
    DledgerError,
    EntryTooLarge,
    NoMachine,
    NotLeader,
    OutcomeUnknown,
    ProposalTimedOut,
    QueueFull,
)
from dledger.machine.applier import Applier, Found, Results, Told
from dledger.machine.entries import HEAD_SIZE, Item, Kind
from dledger.machine.outstanding import Done, LateCommands, Outstanding
from dledger.machine.proposer_ports import ProposerPorts
from dledger.machine.refusals import error_of, unknown
from dledger.machine.sessions import WINDOW
from dledger.wire.forwards import ITEMS_MAX, Asker, Forward, ForwardReason, ForwardReply

#: Commands of this node that are on their way at once.
OUTSTANDING_MAX = WINDOW // 2
#: The same in bytes, unless the node's settings say else.
OUTSTANDING_BYTES_MAX = 256 << 20
#: Bytes of the commands of one frame or proposal, but for one command that has more.
BATCH_BYTES_MAX = 1 << 18
# Each counts for its head, and so that no frame has more than it may.
_COST = max(HEAD_SIZE, -(-BATCH_BYTES_MAX // ITEMS_MAX))
#: A refused command is sent again after so long.
PAUSE_SECONDS = 0.02


class _Sent(NamedTuple):
    leader: NodeId
    sequences: Sequence[int]


@dataclass(slots=True)
class Proposer:
    """The proposer of one node; see the module's text. Times are seconds of the caller's clock."""

    node: NodeId
    incarnation: int
    applier: Applier[Any, Any]
    ports: ProposerPorts
    resend_seconds: float
    late_max: int = 0
    bytes_max: int = OUTSTANDING_BYTES_MAX
    leader: NodeId | None = None
    session: int | None = None
    _opening: int = -1
    _opening_ends_at: float = 0.0
    _sequence: int = 0
    _outstanding: dict[int, Outstanding] = field(default_factory=dict)
    _size: int = 0
    _queued: dict[int, None] = field(default_factory=dict)
    _resting: dict[int, float] = field(default_factory=dict)
    _forwards: dict[int, _Sent] = field(default_factory=dict)
    _failure: DledgerError | None = None
    _late: LateCommands = field(init=False)

    def __post_init__(self) -> None:
        self._late = LateCommands(self.late_max)

    # -- from callers ------------------------------------------------------------------------------

    def propose(
        self,
        kind: int,
        data: bytes,
        done: Done,
        ends_at: float,
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        """Queue a command; `flush` sends it. `done(result, error)` once, unless it is given up.

        Raises QueueFull, NodeFailed.
        """
        if self._failure is not None:
            raise self._failure
        if len(self._outstanding) >= OUTSTANDING_MAX:
            raise QueueFull(f"{OUTSTANDING_MAX} commands of this node wait; pause and try again")
        if self._outstanding and self._size + len(data) > self.bytes_max:
            raise QueueFull(
                f"commands of {self._size} bytes wait here, and {self.bytes_max} may; pause and "
                "try again, or raise proposed_bytes_max"
            )
        self._size += len(data)
        self._sequence = sequence = self._sequence + 1
        self._outstanding[sequence] = Outstanding(kind, data, done, ends_at, given_up)
        self._queued[sequence] = None
        if not sequence % 1024:
            self._late.forget_below(sequence - OUTSTANDING_MAX)

    def again(
        self, error: ProposalTimedOut, done: Done, ends_at: float, given_up: Callable[[], bool]
    ) -> None:
        """Ask again for a late command of this node. Raises OutcomeUnknown, NodeFailed."""
        if self._failure is not None:
            raise self._failure
        late = self._late.take(error.late)
        if late is None:
            raise unknown("it is late for too long, of another node, or was asked for again")
        one = late.one
        one.done, one.ends_at, one.given_up = done, ends_at, given_up
        if late.found is not None:
            self._finish(one, late.found)
            return
        self._outstanding = dict(sorted([*self._outstanding.items(), (late.sequence, one)]))
        one.sent_at = -1.0
        self._size += len(one.data)
        self._queued[late.sequence] = None

    @property
    def waiting_count(self) -> int:
        """Commands without a result yet."""
        return len(self._outstanding)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of those commands, which `bytes_max` bounds."""
        return self._size

    @property
    def queued_count(self) -> int:
        """Commands that are to be sent."""
        return len(self._queued)

    # -- from the node -----------------------------------------------------------------------------

    def flush(self, now: float) -> None:
        """Send all that is queued, if there is a leader."""
        if not self._queued or self.leader is None or self._failure is not None:
            return
        if self.session is None:
            self._open(now)
            return
        queued, self._queued = self._queued, {}
        outstanding = self._outstanding
        items: list[Item] = []
        left = BATCH_BYTES_MAX
        for sequence in queued:
            one = outstanding.get(sequence)
            if one is None:
                continue
            data = one.data
            left -= len(data)
            if left <= 0 and items:
                self._send(items, now)
                items, left = [], BATCH_BYTES_MAX - len(data)
            left -= _COST
            one.sent_at = now
            one.maybe += 1
            items.append((one.kind, sequence, data))
        if items:
            self._send(items, now)

    def led_by(self, leader: NodeId | None) -> None:
        """Another leads, or the same in another term: commands of the last one may be lost."""
        self.leader = leader
        self._opening = -1
        self._forwards.clear()
        self._resting.clear()
        self._queued = dict.fromkeys(self._outstanding)

    def told(self, told: Told) -> None:
        """The applier's news of a session, this node's or another's."""
        if told.kind == Kind.OPEN:
            if told.sequence == self._opening:
                self.session, self._opening = told.index, -1
        elif told.session == self.session:  # it is gone, and this was not applied in it
            self._session_ended()

    def applied(self, session: int, results: Results) -> None:
        """The results of commands, this node's or another's, as they are applied here."""
        if session != self.session:
            return
        # `_take` and `_finish`, written out here: each command passes this once.
        outstanding, queued, resting = self._outstanding, self._queued, self._resting
        for sequence, result in results:
            one = outstanding.pop(sequence, None)
            if one is None:
                self._late.told(sequence, Found(result))
                continue
            self._size -= len(one.data)
            if queued:
                queued.pop(sequence, None)
            if resting:
                resting.pop(sequence, None)
            if isinstance(result, DledgerError):  # a CommandRefused
                one.done(None, result)
            else:
                one.done(result, None)

    def state_taken(self) -> None:
        """This node has another's state: entries were not applied one by one here."""
        gone = self.session is not None and self.session not in self.applier.sessions
        for sequence, one in list(self._outstanding.items()):
            found = self._result_of(sequence)
            if isinstance(found, Found):
                self._take(sequence)
                self._finish(one, found)
            elif gone and one.maybe:
                self._take(sequence)
                one.done(None, unknown("its session is gone with a state that this node was sent"))
        for late in self._late.waiting():
            found = self._result_of(late.sequence)
            if isinstance(found, Found):
                self._late.told(late.sequence, found)
            elif gone and late.one.maybe:
                self._late.drop(late)
        if gone:
            self._session_ended()

    def answered(self, reply: ForwardReply, now: float) -> None:
        """The leader did not take some commands."""
        if reply.asker.incarnation != self.incarnation:
            return
        sent = self._forwards.get(reply.asker.request_id)
        if sent is None:
            if reply.reason is ForwardReason.NO_MACHINE and self._opening == reply.asker.request_id:
                assert self.leader is not None
                self._opening_ends_at = now + PAUSE_SECONDS
                self._end_certain(NoMachine(self.leader))
            return
        if reply.reason is ForwardReason.TOO_LARGE:
            one = self._outstanding.get(reply.sequence)
            if one is not None and reply.sequence in sent.sequences:
                self._take(reply.sequence)
                large = f"a command has {len(one.data)} bytes, more than {sent.leader} allows"
                one.done(None, EntryTooLarge(f"{large}; send less or raise entry_size_max there"))
        del self._forwards[reply.asker.request_id]
        error = error_of(reply.reason, sent.leader)
        self._refused(sent.sequences, error, now)
        if isinstance(error, NoMachine):
            self._end_certain(error)

    def tick(self, now: float) -> None:
        """Send again, and end commands that are late: call it at `deadline`, or earlier."""
        for sequence, at in list(self._resting.items()):
            if now >= at:
                del self._resting[sequence]
                self._queued[sequence] = None
        if self._opening >= 0 and now >= self._opening_ends_at:
            self._opening = -1
        for sequence, one in list(self._outstanding.items()):
            if one.given_up():
                self._take(sequence)
            elif now >= one.ends_at:
                self._take(sequence)
                one.done(None, self._time_over(sequence, one))
            elif one.sent_at >= 0 and now - one.sent_at >= self.resend_seconds:
                one.sent_at = -1.0
                self._queued[sequence] = None
        self.flush(now)

    def deadline(self, now: float) -> float:
        """When `tick` is due next; infinity while no command waits."""
        if not self._outstanding:
            return float("inf")
        if self._resting:
            return now + PAUSE_SECONDS
        if self._opening >= 0:
            return self._opening_ends_at
        first = next(iter(self._outstanding.values()))
        return min(first.ends_at, now + self.resend_seconds / 2)

    def fail(self, failure: DledgerError) -> None:
        """The node has stopped; commands that may have been taken have an unknown outcome."""
        self._failure = self._failure or failure
        outstanding, self._outstanding, self._size = self._outstanding, {}, 0
        for one in outstanding.values():
            if one.maybe:
                error = unknown(f"this node stopped meanwhile ({failure})")
                error.__cause__ = failure
                one.done(None, error)
            else:
                one.done(None, failure)

    # -- inside ------------------------------------------------------------------------------------

    @property
    def _lowest(self) -> int:
        return self._late.lowest(next(iter(self._outstanding), self._sequence + 1))

    def _open(self, now: float) -> None:
        if self._opening >= 0:
            return
        assert self.leader is not None
        self._opening = number = self.ports.new_number()
        self._opening_ends_at = now + self.resend_seconds
        item = (int(Kind.OPEN), number, b"")
        if self.leader == self.node:
            self.ports.append(0, 0, [item], lambda error: self._open_ended(number, error, now))
        else:
            forward = Forward(Asker(self.incarnation, number), 0, 0, [item])
            if not self.ports.forward(self.leader, forward):
                self._opening_ends_at = now + PAUSE_SECONDS

    def _open_ended(self, number: int, error: DledgerError | None, now: float) -> None:
        if error is not None and self._opening == number:
            self._opening_ends_at = now + PAUSE_SECONDS

    def _send(self, items: Sequence[Item], now: float) -> None:
        """Hand over commands, which are marked as sent already."""
        assert self.leader is not None
        assert self.session is not None
        sequences = [sequence for _, sequence, _ in items]
        if self.leader == self.node:
            self.ports.append(
                self.session, self._lowest, items, lambda error: self._ended(sequences, error, now)
            )
            return
        request_id = self.ports.new_number()
        asker = Asker(self.incarnation, request_id)
        self._forwards[request_id] = _Sent(self.leader, sequences)
        if not self.ports.forward(self.leader, Forward(asker, self.session, self._lowest, items)):
            del self._forwards[request_id]
            self._refused(sequences, NotLeader(self.leader), now)
        elif len(self._forwards) > OUTSTANDING_MAX:
            del self._forwards[next(iter(self._forwards))]

    def _ended(self, sequences: Sequence[int], error: DledgerError | None, now: float) -> None:
        """Our own log has decided about a proposal; the results came before, with its apply."""
        if error is not None:
            self._refused(sequences, error, now)

    def _refused(self, sequences: Sequence[int], error: DledgerError, now: float) -> None:
        is_certain = not isinstance(error, OutcomeUnknown)
        for sequence in sequences:
            one = self._outstanding.get(sequence)
            if one is not None:
                one.maybe -= is_certain
                one.refused, one.sent_at = error, -1.0
                self._resting[sequence] = now + PAUSE_SECONDS

    def _end_certain(self, error: DledgerError) -> None:
        """Trying again at this leader is no use; commands that it may have taken wait on."""
        for sequence, one in list(self._outstanding.items()):
            if not one.maybe:
                self._take(sequence)
                one.done(None, error)

    def _session_ended(self) -> None:
        """All that has no result here was not applied in it, and cannot be any more."""
        self.session, self._opening = None, -1
        self._forwards.clear()
        for one in [*self._outstanding.values(), *(late.one for late in self._late.waiting())]:
            one.maybe, one.sent_at = 0, -1.0
        self._resting.clear()
        self._queued = dict.fromkeys(self._outstanding)

    def _result_of(self, sequence: int) -> object:
        if self.session is None:
            return None
        return self.applier.result_of(self.session, sequence)

    def _time_over(self, sequence: int, one: Outstanding) -> DledgerError:
        if not one.maybe:
            return one.refused or NotLeader(self.leader)
        if one.kind == Kind.COMMAND and self.late_max:
            return ProposalTimedOut(self._late.keep(sequence, one))
        return unknown("it was sent to the leader and not applied here in time")

    def _take(self, sequence: int) -> Outstanding | None:
        self._queued.pop(sequence, None)
        self._resting.pop(sequence, None)
        one = self._outstanding.pop(sequence, None)
        if one is not None:
            self._size -= len(one.data)
        return one

    def _finish(self, one: Outstanding, found: Found) -> None:
        if isinstance(found.result, DledgerError):  # a CommandRefused
            one.done(None, found.result)
        else:
            one.done(found.result, None)
