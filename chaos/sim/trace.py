"""The events of a run: as a digest that two runs can compare, and as lines for a reader.

The digest covers every step of every node: when, who, and what it had become. Two runs of one seed
give the same digest, on every machine and in every process.
"""

from __future__ import annotations

import sys
from zlib import crc32

from chaos.sim.scheduler import Scheduler


class Trace:
    """Collects numbers; with `story`, prints lines to standard error."""

    __slots__ = ("_notes", "_scheduler", "_sum", "story")

    def __init__(self, scheduler: Scheduler, *, story: bool = False) -> None:
        self._scheduler = scheduler
        self._sum = 0
        self._notes = 0
        self.story = story

    def step(self, node: int, term: int, last: int, commit: int) -> None:
        """Adds a node's state after one event to the digest."""
        # Numbers only: unlike text, they hash to the same value in every process.
        self._sum = hash((self._sum, self._scheduler.now, node, term, last, commit))

    def note(self, what: str, who: str) -> None:
        """A fault or a phase begins."""
        self._sum = hash((self._sum, self._scheduler.now))
        self._notes = crc32(f"{what} {who}".encode(), self._notes)
        if self.story:
            self.tell(f"{what} {who}")

    def tell(self, line: str) -> None:
        """Prints the line after its virtual time in seconds, to standard error."""
        print(f"{self._scheduler.now:10.6f}  {line}", file=sys.stderr)

    def digest(self) -> str:
        """16 hex digits."""
        return f"{(self._sum ^ self._notes) & 0xFFFFFFFFFFFFFFFF:016x}"
