"""A carrier that takes the place of another one is a loss of that host first (R30)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from dledger.config import RaftConfig
from dledger.core.events import HostsWatched
from dledger.core.types import NodeId
from dledger.membership.handshake import LinkKind
from dledger.replica.beats import SPREAD_SECONDS_PER_GROUP
from dledger.runtime.channels import Fed
from dledger.runtime.clock import SystemClock
from dledger.runtime.host_links import GIVEN_AT_ONCE, HostLinks
from dledger.runtime.owned import Owned

N1 = NodeId("n1")


class _Protocol(Fed):
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
    _, channels = links.accepted[N1, LinkKind.CONTROL]
    channels._add(1, _Protocol(told))
    links.beats.heard(N1, hears_us=True)
    links.beats.start()
    links.beats.join("a", owned, told.append)
    assert told == [HostsWatched(frozenset({N1}))]
    links._greeted(second, hello)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    links.beats.stop()
    assert told[1:] == [HostsWatched(frozenset(), 0.001), "channel"]


async def test_a_new_carrier_is_given_to_some_groups_a_turn() -> None:
    """A thousand greetings in one turn would stop both loops for longer than an election waits."""
    owned = Owned(lambda error: None)
    config = RaftConfig(
        cluster_id="c", group="g", node_id="n0", data_dir="d", peers={"n0": ("h", 1), N1: ("h", 2)}
    )
    links = HostLinks(config, SimpleNamespace(tls=None), lambda: 0.5, owned, SystemClock())  # type: ignore[arg-type]
    link: Any = links.links[N1, LinkKind.CONTROL]
    link._task = asyncio.current_task()  # it is dialled already
    groups = [asyncio.ensure_future(link.carrier()) for _ in range(3 * GIVEN_AT_ONCE)]
    await asyncio.sleep(0)
    link._carrier = carrier = object()
    begun = owned.time()
    link._give_in_turns()
    await asyncio.sleep(0)
    assert sum(group.done() for group in groups) == GIVEN_AT_ONCE
    assert link._giving.when() >= begun + GIVEN_AT_ONCE * SPREAD_SECONDS_PER_GROUP
    link._carrier = None  # it ended: the others wait for the next one
    link._give_in_turns()
    await asyncio.sleep(0)
    assert sum(group.done() for group in groups) == GIVEN_AT_ONCE
    assert link._giving is None
    link._carrier = carrier
    link._give_in_turns()
    assert set(await asyncio.gather(*groups)) == {carrier}
