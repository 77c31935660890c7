"""Kind 32: a member is removed while the cluster works, the leader too, and taken in again; or its
disk is lost for good, an empty node takes its place, and the group readmits its new incarnation.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import cluster
from chaos.drivers.file_damage import clear
from chaos.drivers.stage import Fault, NotUpAgain, Stage
from cluster.client import Client
from cluster.errors import ClusterError

CHANGE_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.2


class Membership:
    """The membership of the stage's first node. Repeats a change until it is made."""

    def __init__(self, stage: Stage, client: Client, broker: str) -> None:
        self._stage, self._client, self._broker = stage, client, broker

    async def remove(self) -> int:
        """The number of members that are left. Raises NotUpAgain."""
        return len((await self._change("remove"))["members"])

    async def add(self) -> float:
        """Take it in again, until it votes; seconds it took. Raises NotUpAgain."""
        began = time.monotonic()
        await self._change("add")
        await self._until_voter()
        return time.monotonic() - began

    async def _change(self, kind: str) -> dict[str, Any]:
        node, end = self._stage.node, time.monotonic() + CHANGE_SECONDS_MAX
        while True:  # bounded by the time
            admin = self._client.admin()
            try:
                found = await admin.members(self._broker)
                if self._is_member(found) is (kind == "remove"):
                    found = await admin.change_members(self._broker, kind, node, dry_run=False)
                if self._is_member(found) is (kind == "add"):
                    return found
            except ClusterError as error:
                if time.monotonic() > end:
                    raise NotUpAgain(node, f"{kind}: {error}") from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def incarnation(self) -> int:
        """Which incarnation of the node the group knows. Raises NotUpAgain."""
        return int((await self._row())["incarnation"])

    async def readmit(self, before: int) -> float:
        """Waits until the new incarnation, not `before`, votes again; returns the seconds it took.

        It has to call first. Raises NotUpAgain.
        """
        began = time.monotonic()
        while (await self._row())["incarnation"] == before:
            # Refused until it has called, and while another change is under way.
            with contextlib.suppress(ClusterError):
                admin = self._client.admin()
                await admin.change_members(self._broker, "readmit", self._stage.node, dry_run=False)
            if time.monotonic() > began + CHANGE_SECONDS_MAX:
                raise NotUpAgain(self._stage.node, "it was not readmitted")
            await asyncio.sleep(PAUSE_SECONDS)
        await self._until_voter()
        return time.monotonic() - began

    async def _row(self) -> dict[str, Any]:
        """The node's row among the members of its group."""
        end = time.monotonic() + CHANGE_SECONDS_MAX
        while True:  # bounded by the time
            try:
                found = await self._client.admin().members(self._broker)
                return next(row for row in found["members"] if row["node"] == self._stage.node)
            except (ClusterError, StopIteration) as error:
                if time.monotonic() > end:
                    raise NotUpAgain(self._stage.node, f"members: {error!r}") from error
            await asyncio.sleep(PAUSE_SECONDS)

    async def _until_voter(self) -> None:
        end = time.monotonic() + CHANGE_SECONDS_MAX
        standing = ""
        while standing != "voter":
            if time.monotonic() > end:
                said = f"it is {standing or 'no member'}, and no voter"
                raise NotUpAgain(self._stage.node, said)
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                found = await self._client.admin().members(self._broker)
            except ClusterError:
                continue
            rows = [row for row in found["members"] if row["node"] == self._stage.node]
            standing = rows[0]["standing"] if rows else ""

    def _is_member(self, found: dict[str, Any]) -> bool:
        return any(row["node"] == self._stage.node for row in found["members"])


@asynccontextmanager
async def membership_of(stage: Stage) -> AsyncIterator[Membership]:
    """Through a client of its own."""
    async with cluster.connect(stage.arena.cluster.nameserver) as client:
        broker = next(iter((await client.admin().status()).brokers))
        yield Membership(stage, client, broker)


async def membership(stage: Stage) -> str:
    """One of the two."""
    return await (replaced(stage) if stage.random.random() < 0.4 else removed(stage))


async def replaced(stage: Stage) -> str:
    """The node loses its whole folder, is readmitted with a new incarnation, is sent the log and
    votes again."""
    async with membership_of(stage) as member:
        before = await member.incarnation()
        await stage.kill([stage.node])
        await asyncio.to_thread(clear, stage.folder(stage.node) / "data")
        await stage.hold()
        await stage.arena.join(stage.node)
        took = await member.readmit(before)
        after = await member.incarnation()
    return f"{stage.node} lost its disk, votes {took:.2f} s later in life {after}, not {before}"


async def removed(stage: Stage) -> str:
    """Removes the node and adds it again: it is sent the entries that it missed and votes again."""
    async with membership_of(stage) as member:
        left = await member.remove()
        await stage.hold()
        took = await member.add()
    return f"{stage.node} left {left} members and votes again {took:.2f} s later"


FAULTS: dict[str, Fault] = {"membership": membership}
