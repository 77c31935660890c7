"""Shows the demo while it runs: lines for a file or a pipe, a live table on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click

from chaos.live.arena import Arena
from chaos.live.load import Load

if TYPE_CHECKING:
    from rich.live import Live

HEAD = "node  role           term     last  committed   lag"
INDENT = " " * 7
REFRESH_SECONDS = 0.5
# Only words that differ from the status's own.
ROLES = {"leader": "LEADER"}


class Lines:
    """Events, and a table where the demo asks for one, as lines of text."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def happened(self, text: str) -> None:
        """Print the event behind the time since the start."""
        self.print(f"{self.clock()}  {text}")

    def print(self, text: str) -> None:
        """Print to standard output."""
        click.echo(text)

    def clock(self) -> str:
        """Minutes and seconds since the start."""
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:02}:{seconds % 60:02}"

    async def show(self, arena: Arena, load: Load) -> None:
        """Print the table of this moment."""
        self.print(f"\n{await table(arena, load)}\n")

    @contextlib.asynccontextmanager
    async def watching(self, arena: Arena, load: Load) -> AsyncIterator[None]:
        """Shows no table meanwhile: lines cannot be overwritten."""
        yield


class Quiet(Lines):
    """Prints no lines; for machine output."""

    def print(self, text: str) -> None:
        """Prints no line."""

    async def show(self, arena: Arena, load: Load) -> None:
        """Prints no table."""


class LiveTable(Lines):
    """Events scroll by above one table that is always current."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None

    def print(self, text: str) -> None:
        """Print above the live table while there is one, else to standard output."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            click.echo(text)

    async def show(self, arena: Arena, load: Load) -> None:
        """Print the table, unless the live one stands there."""
        if self._live is None:
            await super().show(arena, load)

    @contextlib.asynccontextmanager
    async def watching(self, arena: Arena, load: Load) -> AsyncIterator[None]:
        """Keep the live table current every REFRESH_SECONDS until the context ends."""
        from rich.live import Live

        with Live(auto_refresh=False, transient=True) as self._live:
            refreshing = asyncio.ensure_future(self._refresh(self._live, arena, load))
            try:
                yield
            finally:
                refreshing.cancel()
                await asyncio.gather(refreshing, return_exceptions=True)
                self._live = None

    async def _refresh(self, live: Live, arena: Arena, load: Load) -> None:
        while True:  # ended by cancellation
            text = await table(arena, load)
            live.update(f"\n{INDENT}{self.clock()}\n{text}\n", refresh=True)
            await asyncio.sleep(REFRESH_SECONDS)


async def table(arena: Arena, load: Load) -> str:
    """Every node's state now, and how much was acknowledged so far."""
    found = await arena.statuses()
    newest = max((s["last_index"] for s in found.values() if s), default=0)
    rows = [f"{HEAD}   acknowledged {len(load.acknowledged_at)}"]
    rows += [_row(name, status, newest) for name, status in found.items()]
    return "\n".join(INDENT + row for row in rows)


def _row(name: str, status: dict[str, Any] | None, newest: int) -> str:
    if status is None:
        return f"{name:4}  {'down':13}  {'-':>4}  {'-':>7}  {'-':>9}  {'-':>4}"
    role = ROLES.get(status["role"], status["role"])
    return (
        f"{name:4}  {role:13}  {status['term']:>4}  {status['last_index']:>7}  "
        f"{status['committed_index']:>9}  {newest - status['last_index']:>4}"
    )
