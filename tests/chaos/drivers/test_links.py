"""Which links a partition and a ring cut, of proxies and below TCP; nothing is running here."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from chaos.drivers import links, netfilter
from chaos.drivers.stage import Stage
from chaos.live.arena import CLIENT
from chaos.live.link_proxy import LinkMesh, LinkProxy, Mode

NODES = ["n0", "n1", "n2", "n3", "n4"]
CHANCES = range(30)


def mesh() -> LinkMesh:
    """As chaos/live/arena.py names them; not open."""
    found = {f"client {CLIENT}>{node}": LinkProxy(CLIENT, node, "", "") for node in NODES}
    for kind in ("peer", "forward"):
        for one in NODES:
            for other in NODES:
                if one != other:
                    found[f"{kind} {one}>{other}"] = LinkProxy(one, other, "", "")
    return LinkMesh(found)


class FakeStage:
    """`n0` leads. While a fault holds, it notes who does not see whom, and one byte is lost."""

    def __init__(self, nodes: list[str], chance: int) -> None:
        self.nodes, self.node, self.random = nodes, nodes[0], Random(chance)
        self.others = [node for node in NODES if node not in nodes]
        hosts = SimpleNamespace(host=lambda node: f"at-{node}", bridge_host="at-client")
        cluster = SimpleNamespace(brokers=NODES)
        self.arena = SimpleNamespace(mesh=mesh(), cluster=cluster, network=hosts)
        self.unseen: set[frozenset[str]] = set()
        self.seconds = 1.0

    async def leads(self, node: str) -> bool:
        return node == "n0"

    async def hold(self) -> None:
        for link in self.arena.mesh.links.values():
            assert link.forward.mode is link.backward.mode
            if link.forward.mode is Mode.DROP:
                self.unseen.add(frozenset((link.source, link.target)))
                link.effects["dropped bytes"] += 1

    async def until(self, seen: Callable[[], bool], seconds_max: float) -> bool:
        return seen()


async def cut_by_proxies(fault: str, nodes: list[str], chance: int) -> set[frozenset[str]]:
    stage = FakeStage(nodes, chance)
    assert await links.FAULTS[fault](cast(Stage, stage))
    modes = {link.forward.mode for link in stage.arena.mesh.links.values()}
    assert modes == {Mode.PASS}, "all is healed"
    return stage.unseen


async def cut_below_tcp(
    fault: str, nodes: list[str], chance: int, monkeypatch: pytest.MonkeyPatch
) -> set[frozenset[str]]:
    cut: set[frozenset[str]] = set()

    async def held(_: Stage, rules: netfilter.Rules, what: str) -> str:
        for node, lines in rules.items():
            for line in lines:
                whom = line.partition("at-")[2].partition(" ")[0]
                cut.add(frozenset((node, whom)))
        return what

    monkeypatch.setattr(netfilter, "_held", held)
    assert await netfilter.FAULTS[fault](cast(Stage, FakeStage(nodes, chance)))
    return cut


def pairs(*words: str) -> set[frozenset[str]]:
    return {frozenset(word.split("|")) for word in words}


ALONE = pairs("n1|n0", "n1|n2", "n1|n3", "n1|n4", f"n1|{CLIENT}")
HALVES = pairs("n1|n0", "n1|n2", "n1|n4", "n3|n0", "n3|n2", "n3|n4")
EACH_ALONE = ALONE | HALVES | pairs("n1|n3", f"n3|{CLIENT}")


@pytest.mark.parametrize(
    ("fault", "nodes", "expected"),
    [("partition", ["n1"], [ALONE]), ("partition", ["n1", "n3"], [HALVES, EACH_ALONE])],
)
async def test_a_partition_is_of_one_or_of_several_alone_or_of_halves(
    fault: str,
    nodes: list[str],
    expected: list[set[frozenset[str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_proxies = [await cut_by_proxies(fault, nodes, chance) for chance in CHANCES]
    below = [await cut_below_tcp(fault, nodes, chance, monkeypatch) for chance in CHANCES]
    assert by_proxies == below
    assert all(one in by_proxies for one in expected)
    assert all(one in expected for one in by_proxies)


async def test_all_nodes_alone_see_nobody() -> None:
    for chance in CHANCES:
        cut = await cut_by_proxies("partition", NODES, chance)
        assert len(cut) == 10 + 5, "pairs of nodes, and clients"


async def test_a_ring_of_five_cuts_an_edge_a_bridge_or_all_but_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_proxies = [await cut_by_proxies("ring", ["n2"], chance) for chance in CHANCES]
    below = [await cut_below_tcp("ring", ["n2"], chance, monkeypatch) for chance in CHANCES]
    assert by_proxies == below
    assert pairs("n2|n0") in by_proxies
    assert {len(cut) for cut in by_proxies} == {1, 4, 5}
    assert all(any("n0" in pair for pair in cut) for cut in by_proxies), "the leader is cut, too"


async def test_swizzled_links_clog_in_one_order_and_flow_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as it lasts some links hold what others let through; in the end none does."""
    stage = FakeStage(["n1"], 1)
    stage.seconds = 0.0
    of_peers = [one for name, one in stage.arena.mesh.links.items() if name.startswith("peer")]
    mine = [one for one in of_peers if "n1" in {one.source, one.target}]
    frozen: list[set[str]] = []

    async def looked(_: float) -> None:
        held = [one for one in of_peers if one.forward.mode is Mode.FREEZE]
        frozen.append({f"{one.source}>{one.target}" for one in held})
        for one in held:
            one.effects["held bytes"] += 1

    monkeypatch.setattr("chaos.drivers.links.asyncio.sleep", looked)
    told = await links.swizzled(cast(Stage, stage))
    assert told.startswith(f"{len(mine)} links clogged in one order and healed in another: held")
    counts = [len(one) for one in frozen]
    assert counts == [*range(1, len(mine) + 1), *reversed(range(len(mine)))]
    began = [(new - old).pop() for old, new in pairwise([set(), *frozen[: len(mine)]])]
    ended = [(old - new).pop() for old, new in pairwise(frozen[len(mine) - 1 :])]
    assert sorted(began) == sorted(ended)
    assert began != ended


async def test_links_that_held_nothing_are_no_effect() -> None:
    stage = FakeStage(["n1"], 1)
    stage.seconds = 0.0
    assert await links.swizzled(cast(Stage, stage)) == ""
