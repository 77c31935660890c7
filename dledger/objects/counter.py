"""A number that every node can add to."""

from __future__ import annotations

from typing import Any

from commitlog.records.checksum import crc32
from dledger.config import RaftConfig
from dledger.errors import CommandRefused
from dledger.machine.node import Consistency
from dledger.machine.state_machine import Entry, ReplicatedStateMachine
from dledger.objects.replicated_object import ReplicatedObject, as_json, of_json, whole

#: Python makes no text of a larger number, and every node would stop at it.
TOO_LARGE = 10**4300


class CounterMachine(ReplicatedStateMachine[int, int]):
    """A command is a number to add, its result the sum."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, entry: Entry[int]) -> int:
        """The sum, this command included."""
        total = self.total + entry.command
        if abs(total) >= TOO_LARGE:
            raise CommandRefused("the sum would have more than 4,300 digits; add less")
        self.total = total
        return total

    def checksum(self) -> int:
        """CRC-32 of the sum."""
        return crc32(self.snapshot())

    def snapshot(self) -> bytes:
        """The sum."""
        return as_json(self.total)

    def restore(self, state: bytes) -> None:
        """Take another sum."""
        self.total = of_json(state)


class ReplicatedCounter(ReplicatedObject[int, int]):
    """A number of up to 4,300 digits, 0 at first."""

    def __init__(self, config: RaftConfig, **options: Any) -> None:
        """`options`: as of `ReplicatedObject`."""
        self._machine = CounterMachine()
        super().__init__(config, self._machine, **options)

    async def add(self, amount: int = 1) -> int:
        """Add, once; the sum right after it.

        Raises LogUsageError for what is no int, CommandRefused for a sum of more than 4,300
        digits, and as `ReplicatedNode.propose`.
        """
        return await self.node.propose(whole("an amount", amount))

    async def value(self, consistency: Consistency = Consistency.LINEARIZABLE) -> int:
        """The sum. Raises as `ReplicatedNode.read`."""
        return await self.node.read(lambda: self._machine.total, consistency=consistency)
