"""Asks every node for its status twice a second and records roles, terms and ends of logs over the
run.

nodes.jsonl   {"time": 3.5, "node": "n0", "role": "leader", "term": 2, "vote": "n0",
               "committed": 811, "last": 811, "boot": 0, "begins": 0, "no_op": 7,
               "configuration": 41, "life": 90210, "generation": [7, 55]}

A node that does not answer has no line.

`vote`: as it is on the node's disk for this term, null when the node cannot tell (its disk is
behind, or an earlier version answers). `begins`: address of the first byte of its log.
`configuration`: index of the newest one in its log. `no_op`: entry with which its term begins.
`life`, `generation`: which copy of which folder it is on; an earlier version does not tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from chaos.checkers.elections import Seen
from chaos.live.arena import Arena
from chaos.live.evidence_rows import generation
from cluster.local import processes

PERIOD_SECONDS = 0.5


class Observer:
    """Asks all nodes while `async with` lasts."""

    def __init__(self, arena: Arena, now: Callable[[], float]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._arena, self._now = arena, now
        self._boots: dict[str, list[tuple[int, int]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Observer:
        self._task = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:  # until the context ends
            await self.look()
            await asyncio.sleep(PERIOD_SECONDS)

    async def look(self) -> None:
        """Ask every node once."""
        before = {node: self._started(node) for node in self._arena.cluster.brokers}
        for node, status in (await self._arena.statuses()).items():
            if status is None:
                continue
            process = int(status.get("process_id", 0)), int(status.get("started_ms", 0))
            if not process[0]:  # an earlier version, which does not tell which process answers
                process = before[node]
                if self._started(node) != process:
                    continue  # it was started meanwhile
            self.rows.append(
                {
                    "time": round(self._now(), 3),
                    "node": node,
                    "role": status["role"],
                    "term": status["term"],
                    "vote": _vote(status),
                    "committed": status["committed_index"],
                    "last": status["last_index"],
                    "boot": self._boot(node, process),
                    "begins": status.get("first_position"),
                    "configuration": status.get("configuration", {}).get("index"),
                    "no_op": status.get("no_op_index"),
                    **{name: status[name] for name in ("life", "generation") if name in status},
                }
            )

    def _started(self, node: str) -> tuple[int, int]:
        """The process that was started last for a node, as its folder has it."""
        known = processes.known(self._arena.cluster.folder(node))
        return (0, 0) if known is None else (known.pid, 0)

    def _boot(self, node: str, process: tuple[int, int]) -> int:
        """Which of the node's processes it is that answered, in the order that they were seen."""
        lives = self._boots.setdefault(node, [])
        if process not in lives:
            lives.append(process)
        return lives.index(process)

    def trace(self) -> list[Seen]:
        """For the checkers; in order of time."""
        return [seen(row) for row in self.rows]


def _vote(status: Mapping[str, Any]) -> str | None:
    """The node's vote in its current term, or None: a vote of an earlier term does not count
    here.
    """
    return status["voted_for"] if status.get("vote_term") == status["term"] else None


def seen(row: Mapping[str, Any]) -> Seen:
    """One row as the checkers take it; earlier versions told less."""
    return Seen(
        row["time"],
        row["node"],
        row["term"],
        row["role"] == "leader",
        row.get("vote"),
        row["committed"],
        row["last"],
        row["boot"],
        row.get("begins"),
        row.get("no_op"),
        row.get("configuration"),
        row.get("life"),
        generation(row),
    )
