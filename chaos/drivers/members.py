"""Kind 32: a member is removed while the cluster works, the leader too, and taken in again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import cluster
from chaos.drivers.stage import Fault, NotUpAgain, Stage
from cluster.client import Client
from cluster.errors import ClusterError

CHANGE_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.2


class Membership:
    """Of the stage's first node; a change is asked for until it is so, leaders change meanwhile."""

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
    """Remove the node, go on without it, add it: it is sent what it missed and votes again."""
    async with membership_of(stage) as member:
        left = await member.remove()
        await stage.hold()
        took = await member.add()
    return f"{stage.node} left {left} members and votes again {took:.2f} s later"


FAULTS: dict[str, Fault] = {"membership": membership}
