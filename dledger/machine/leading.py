"""The leader's side: commands of this node and of followers become entries of the log.

items ─► in the log or on their way already? ─► stamped with the log's time ─► the log
         the machine is too far behind: refused
                                                    │ refused: `done`, or a FORWARD_REPLY
                                                    └ committed: the follower is told at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dledger.core.types import NodeId
from dledger.errors import DledgerError, NodeFailed
from dledger.machine.applier import Applier, Results, Told
from dledger.machine.entries import COMMANDS_BYTES_MAX, HEAD_SIZE, Item, Kind, pack_entries
from dledger.machine.refusals import reason_of
from dledger.runtime.replicated_log import ReplicatedLog
from dledger.wire.forwards import Forward, ForwardReason, ForwardReply, pack_reply

#: Of items: those that share an entry come one by one.
_KINDS = frozenset(map(int, Kind)) - {int(Kind.COMMANDS)}
_NONE: frozenset[int] = frozenset()


class Leading:
    """Takes commands on one node; refuses them while the node does not lead."""

    def __init__(
        self,
        log: ReplicatedLog,
        applier: Applier[Any, Any],
        refusal: Callable[[], DledgerError | None] = lambda: None,
        commands_max: Callable[[], int] = lambda: 1,
    ) -> None:
        """`refusal`: why no command is taken now; None: they are. `commands_max`: how many may
        share an entry now.
        """
        self._log, self._applier, self._refusal = log, applier, refusal
        self._commands_max = commands_max
        #: Session → sequences proposed in this leadership, and not known to be refused.
        self._pending: dict[int, set[int]] = {}

    def role_changed(self) -> None:
        """Another leadership: the entries of the last one may be lost."""
        self._pending.clear()

    def applied(self, session: int, results: Results) -> None:
        """Forget commands that were applied: the table of sessions filters repeats of them."""
        if session in self._pending:
            self._over(session, [sequence for sequence, _ in results])

    def gone(self, told: Told) -> None:
        """The session of this command is gone, if it opens none: no later one of it is new."""
        if told.kind != Kind.OPEN:
            self._over(told.session, [told.sequence])

    def _over(self, session: int, sequences: Iterable[int]) -> None:
        pending = self._pending.get(session)
        if pending is not None:
            pending.difference_update(sequences)
            if not pending:
                del self._pending[session]

    def append(
        self,
        session: int,
        lowest: int,
        items: Sequence[Item],
        done: Callable[[DledgerError | None], None],
    ) -> None:
        """Propose those that are not under way yet; `done(error)` when that is decided.

        Raises EntryTooLarge, NodeFailed at once.
        """
        new = self._new(session, items)
        if not new:
            return  # its first attempt will be applied, or the leadership ends
        refusal = self._refusal()
        if refusal is not None:
            done(refusal)
            return
        time_ms = self._log.driver.clock.time_ms()
        sequences = [sequence for _, sequence, _ in new] if session else []
        if sequences:
            self._pending.setdefault(session, set()).update(sequences)
        try:
            bodies = pack_entries(
                new,
                time_ms,
                session,
                lowest,
                commands_max=self._commands_max() if len(new) > 1 else 1,
                size_max=min(COMMANDS_BYTES_MAX, self._log.entry_size_max),
            )
            future = self._log.append_at_once(bodies)
        except DledgerError:
            self._over(session, sequences)
            raise

        def ended(future: asyncio.Future[range]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                self._over(session, sequences)
                assert isinstance(error, DledgerError)
            done(error)

        self._log.owned.when_done(future, ended)

    def _new(self, session: int, items: Sequence[Item]) -> Sequence[Item]:
        """The items that were neither proposed in this leadership nor applied."""
        if not session:
            return items
        pending = self._pending.get(session, _NONE)
        results = self._applier.sessions.results(session)
        sequences = [sequence for _, sequence, _ in items]
        if results.keys().isdisjoint(sequences) and pending.isdisjoint(sequences):
            return items
        return [item for item in items if item[1] not in pending and results.get(item[1]) is None]

    def take(self, peer: NodeId, forward: Forward) -> None:
        """Propose the commands that a follower hands over."""

        def refuse(reason: ForwardReason, sequence: int = -1) -> None:
            reply = ForwardReply(forward.asker, reason, sequence)
            self._log.driver.transport.forward(peer, pack_reply(reply))

        def done(error: DledgerError | None) -> None:
            if not self._log.is_open:
                return
            try:
                if error is not None:
                    refuse(reason_of(error))
                else:  # it waits for the result of its own apply
                    self._log.driver.tell_commit(peer)
            except NodeFailed:
                pass  # this node is being closed, or has failed: its peers see that it is gone

        if not self._log.is_leader:
            refuse(ForwardReason.NOT_LEADER)
            return
        items = [item for item in forward.items if item[0] in _KINDS]
        size_max = self._log.entry_size_max - HEAD_SIZE
        for _, sequence, data in items:
            if len(data) > size_max:
                refuse(ForwardReason.TOO_LARGE, sequence)
                return
        self.append(forward.session, forward.lowest, items, done)
