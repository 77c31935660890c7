"""Decisions about orderly locks: which owners are logged, and which leases are renewed.

lock, unlock ─► LockDecision ─► Locks ─► LocksChanged in the log ─► replayed ─► answer
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cluster.broker.consume.ports import ConsumePorts
from cluster.broker.kernel.net.decisions import answers
from cluster.broker.kernel.net.requests import Call
from cluster.core.locks import Locked


class LockDecision(NamedTuple):
    """`answer` is called when the table shows the owners; None: success, no fields.

    From now on until then no other client gets these queues.
    """

    group: str
    locked: Locked
    answer: Callable[[Call], None] | None = None

    def carry_out(self, ports: ConsumePorts, call: Call) -> None:
        """Log the owners, if there are any, then answer.

        Raises QueueFull, and InvalidRequest for too many at once.
        """
        ports.locks.change(self.group, self.locked, answers(call, self.answer))
