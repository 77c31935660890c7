"""A carrier that takes the place of another one is a loss of that host first (R30)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from dledger.config import RaftConfig
from dledger.core.events import HostsWatched
from dledger.core.types import NodeId
from dledger.membership.handshake import LinkKind
from dledger.runtime.clock import SystemClock
from dledger.runtime.host_links import HostLinks
from dledger.runtime.owned import Owned

N1 = NodeId("n1")


class _Protocol(asyncio.BufferedProtocol):
    def __init__(self, told: list[str]) -> None:
        self._told = told

    def connection_lost(self, exc: Exception | None) -> None:
        self._told.append("channel")


async def test_groups_hear_of_the_host_before_their_channels_end() -> None:
    """Else each follower stands by its own channel, a thousand in one moment and not spread."""
    told: list[Any] = []
    owned = Owned(lambda error: None)
    config = RaftConfig(
        cluster_id="c", group="g", node_id="n0", data_dir="d", peers={"n0": ("h", 1), N1: ("h", 2)}
    )
    links = HostLinks(config, SimpleNamespace(tls=None), lambda: 0.5, owned, SystemClock())  # type: ignore[arg-type]
    sender = SimpleNamespace(node_id=N1, level=1)
    hello: Any = SimpleNamespace(sender=sender, link_kind=LinkKind.CONTROL)
    first, second = (
        SimpleNamespace(certified=(), write_all=lambda _: None, close=lambda: None, hello=hello)
        for _ in range(2)
    )
    links._greeted(first, hello)  # type: ignore[arg-type]
    _, channels = links._accepted[N1, LinkKind.CONTROL]
    channels._add(1, _Protocol(told))
    links.beats.heard(N1, hears_us=True)
    links.beats.start()
    links.beats.join("a", owned, told.append)
    assert told == [HostsWatched(frozenset({N1}))]
    links._greeted(second, hello)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    links.beats.stop()
    assert told[1:] == [HostsWatched(frozenset(), 0.001), "channel"]
