"""The workload: writers that append unique values and record each append's outcome.

A writer has one append at a time. After one whose outcome nobody knows its name retires, and it
goes on at another node (docs/spec/chaos.md 2.1).
"""

from __future__ import annotations

import asyncio
import time

from chaos.baseline.nodes import Node, Nodes, NotAnswering
from chaos.history import INFINITY, Kind, Operation, Outcome

WRITERS = 20
REST_SECONDS = 0.02


class Writers:
    """Writers on every node of a cluster; `history` has their operations, in seconds of the run."""

    def __init__(self, nodes: Nodes, *, writers: int = WRITERS) -> None:
        self.history: list[Operation] = []
        self._nodes = nodes
        self._began = time.monotonic()
        self._stopping = False
        self._more = asyncio.Event()
        self._tasks = [asyncio.ensure_future(self._live(n)) for n in range(writers)]

    @property
    def acked(self) -> int:
        """How many appends have been acknowledged so far."""
        return sum(op.outcome is Outcome.OK for op in self.history)

    async def stop(self) -> None:
        """No new appends; those under way end as they end."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def until_acked(self, more: int, seconds_max: float = 20.0) -> bool:
        """Wait for so many more acknowledgements; False when they do not come in time."""
        wanted = self.acked + more
        try:
            async with asyncio.timeout(seconds_max):
                while self.acked < wanted:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            return False
        return True

    async def _live(self, number: int) -> None:
        at, life, count = number, 0, 0
        while not self._stopping:
            node = self._nodes.nodes[at % len(self._nodes.nodes)]
            process = f"w{number}" + (f"_{life}" if life else "")
            op = await self._append(process, f"w{number}-{count}", node)
            self.history.append(op)
            self._more.set()
            count += 1
            if op.outcome is not Outcome.OK:
                life += op.outcome is Outcome.INFO
                at += 1
                await asyncio.sleep(REST_SECONDS)

    async def _append(self, process: str, value: str, node: Node) -> Operation:
        invoked = time.monotonic() - self._began
        try:
            word, _, rest = (await self._nodes.ask(node, f"append {value}")).partition(" ")
        except NotAnswering:
            word, rest = "info", ""
        completed = time.monotonic() - self._began
        if word == "ok":
            return Operation(process, Kind.APPEND, value, invoked, completed, Outcome.OK, int(rest))
        if word == "fail":
            return Operation(process, Kind.APPEND, value, invoked, completed, Outcome.FAIL)
        return Operation(process, Kind.APPEND, value, invoked, INFINITY, Outcome.INFO)
