"""The leader's side: commands of this node and of followers become entries of the log.

items ─► in the log or on their way already? ─► stamped with the log's time ─► append_many
                                                    │ refused: `done`, or a FORWARD_REPLY
                                                    └ committed: the follower is told at once
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from dledger.core.types import NodeId
from dledger.errors import DledgerError, NodeFailed, OutcomeUnknown, QueueFull
from dledger.machine.applier import Applier
from dledger.machine.entries import HEAD_SIZE, Item, Kind, pack_entry
from dledger.runtime.replicated_log import ReplicatedLog
from dledger.wire.forwards import Forward, ForwardReason, ForwardReply, pack_reply

_KINDS = frozenset(map(int, Kind))


class Leading:
    """Of one node, also while it does not lead: then it refuses."""

    def __init__(self, log: ReplicatedLog, applier: Applier[Any, Any]) -> None:
        self._log, self._applier = log, applier
        #: Proposed in this leadership, by (session, sequence), and not known to be refused.
        self._pending: set[tuple[int, int]] = set()

    def role_changed(self) -> None:
        """Another leadership: the entries of the last one may be lost."""
        self._pending.clear()

    def applied(self, session: int, sequence: int) -> None:
        """This command needs no filter any more: the table of sessions knows it."""
        self._pending.discard((session, sequence))

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
        new = [item for item in items if self._is_new(session, item)]
        if not new:
            return  # its first attempt will be applied, or the leadership ends
        time_ms = self._log.driver.clock.time_ms()
        future = self._log.append_many([pack_entry(item, time_ms, session, lowest) for item in new])
        keys = [(session, item.sequence) for item in new if session]
        self._pending.update(keys)

        def ended(future: asyncio.Future[range]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is not None:
                self._pending.difference_update(keys)
                assert isinstance(error, DledgerError)
            done(error)

        self._log.owned.when_done(future, ended)

    def _is_new(self, session: int, item: Item) -> bool:
        return not session or (
            (session, item.sequence) not in self._pending
            and self._applier.sessions.result(session, item.sequence) is None
        )

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
                    refuse(_reason_of(error))
                else:  # it waits for the result of its own apply
                    self._log.driver.tell_commit(peer)
            except NodeFailed:
                pass  # this node is being closed, or has failed: its peers see that it is gone

        if not self._log.is_leader:
            refuse(ForwardReason.NOT_LEADER)
            return
        items = [Item(*item) for item in forward.items if item[0] in _KINDS]
        for item in items:
            if len(item.data) + HEAD_SIZE > self._log.entry_size_max:
                refuse(ForwardReason.TOO_LARGE, item.sequence)
                return
        self.append(forward.session, forward.lowest, items, done)


def _reason_of(error: DledgerError) -> ForwardReason:
    if isinstance(error, OutcomeUnknown):
        return ForwardReason.MAYBE
    return ForwardReason.BUSY if isinstance(error, QueueFull) else ForwardReason.NOT_LEADER
