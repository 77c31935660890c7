"""Kinds of links once more, below TCP: nftables and tbf in the network namespaces of nodes.

    clients ─ bridge ─┬─ n0 [input ▸ rules]      input: what the node would hear
                      ├─ n1 [output ▸ rules]     output: what it would say
                      └─ n2

Packets are lost, not bytes of a stream: connections survive, and what was lost is sent again, later
and later. Every rule counts the packets that it met, which is the proof of its effect. A node's
talk with the name server and its administrators is spared, as the link proxies spare it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence

from chaos.drivers.groups import cut_of_ring, is_split_in_two
from chaos.drivers.links import EFFECT_SECONDS_MAX, FLAP_SECONDS
from chaos.drivers.stage import Fault, Stage
from chaos.live.namespaces import Namespaces
from cluster.local.plan import CLIENT_PORT

TABLE = "dledger"
IN, OUT = "input", "output"
POLL_SECONDS = 0.1
RESET_SECONDS = 0.3  # of open connections answered with RST, so that somebody dials
NO_RESET = "tcp flags & rst == 0"  # else the answer to one way's packets is swallowed on the other

Rules = Mapping[str, Sequence[str]]  # node → rules, each "input …" or "output …"


class _Filter:
    """Rules in some nodes' namespaces, and how many packets they met."""

    def __init__(self, network: Namespaces) -> None:
        self._network = network
        self._nodes: set[str] = set()
        self._before = 0

    async def set(self, rules: Rules) -> None:
        """Put these rules in place of all others, in one step; counts go on. Raises OSError.

        Rules go also where they cannot be counted, as on a node that never got its own.
        """
        gone = self._nodes - rules.keys()
        try:
            self._before += await asyncio.to_thread(self._count)
        finally:
            self._nodes = set(rules)
            await asyncio.to_thread(self._delete, gone)
        for node, wanted in rules.items():
            await asyncio.to_thread(self._install, node, wanted)

    async def packets(self) -> int:
        """How many packets any rule met since the beginning."""
        return self._before + await asyncio.to_thread(self._count)

    def _delete(self, nodes: Iterable[str]) -> None:
        """On all of them, also when it fails on one; there need be none."""
        add = f"add table inet {TABLE}"
        failed: list[OSError] = []
        for node in nodes:
            try:
                self._network.run(node, "nft", f"{add}; delete table inet {TABLE}")
            except OSError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _install(self, node: str, rules: Sequence[str]) -> None:
        add = f"add table inet {TABLE}"
        lines = [add, f"delete table inet {TABLE}", add]  # all lines are one transaction
        for chain in (IN, OUT):
            hook = f"type filter hook {chain} priority 0;"
            lines.append(f"add chain inet {TABLE} {chain} {{ {hook} }}")
        lines += [f"add rule inet {TABLE} {rule}" for rule in rules]
        self._network.run(node, "nft", "\n".join(lines))

    def _count(self) -> int:
        total = 0
        for node in self._nodes:
            said = json.loads(self._network.run(node, "nft", "-j", f"list table inet {TABLE}"))
            rules = (row["rule"]["expr"] for row in said["nftables"] if "rule" in row)
            total += sum(
                part["counter"]["packets"] for rule in rules for part in rule if "counter" in part
            )
        return total


@contextlib.asynccontextmanager
async def _filtered(stage: Stage, rules: Rules) -> AsyncIterator[_Filter]:
    """Rules for a while; none of them is left at the end, however it ends."""
    found = _Filter(_network(stage))
    try:
        await found.set(rules)
        yield found
    finally:
        await asyncio.shield(found.set({}))


def _network(stage: Stage) -> Namespaces:
    assert stage.arena.network is not None, "only in an arena of namespaces"
    return stage.arena.network


def _rules(
    stage: Stage,
    node: str,
    verdict: str,
    *,
    peers: Iterable[str],
    clients: bool,
    ways: Sequence[str],
) -> list[str]:
    """Returns the nftables rules that apply `verdict` to packets between a node and some peers, and
    its clients."""
    network, rules = _network(stage), []
    for way in ways:
        end = "saddr" if way == IN else "daddr"
        for peer in peers:
            rules.append(f"{way} ip {end} {network.host(peer)} meta l4proto tcp {verdict}")
        if clients:
            port = f"tcp {'dport' if way == IN else 'sport'} {CLIENT_PORT}"
            rules.append(f"{way} ip {end} {network.bridge_host} {port} {verdict}")
    return rules


def _around(stage: Stage, verdict: str, *, ways: Sequence[str] = (IN, OUT)) -> Rules:
    """The same for all that the fault's nodes hear and say."""
    return {
        node: _rules(
            stage,
            node,
            verdict,
            peers=[other for other in stage.arena.cluster.brokers if other != node],
            clients=True,
            ways=ways,
        )
        for node in stage.nodes
    }


async def _held(stage: Stage, rules: Rules, what: str) -> str:
    """As long as planned, and until packets were met: a quiet link needs a while."""
    async with _filtered(stage, rules) as found:
        await stage.hold()
        met = await _met(found.packets)
    return f"{what} {met} packets" if met else ""


async def _met(count: Callable[[], Awaitable[int]]) -> int:
    """How many packets, as soon as there are some; 0 when there are none in time."""
    end = time.monotonic() + EFFECT_SECONDS_MAX
    while True:  # bounded by the time
        if (met := await count()) or time.monotonic() > end:
            return met
        await asyncio.sleep(POLL_SECONDS)


async def partition(stage: Stage) -> str:
    """Drops all packets to and from the node; links.partition says how several nodes are cut."""
    if is_split_in_two(stage.nodes, stage.random) and stage.others:
        both = (IN, OUT)
        rules = {
            node: _rules(stage, node, "counter drop", peers=stage.others, clients=False, ways=both)
            for node in stage.nodes
        }
        return await _held(stage, rules, "dropped between the halves")
    return await _held(stage, _around(stage, "counter drop"), "dropped")


async def one_way(stage: Stage) -> str:
    """The node can send but not receive, or receive but not send."""
    way = stage.random.choice((IN, OUT))
    return await _held(stage, _around(stage, "counter drop", ways=(way,)), f"dropped on {way}")


async def ring(stage: Stage) -> str:
    """One edge is cut: the node and the leader, or another one; of five more may be cut."""
    leading = [node for node in stage.others if await stage.leads(node)]
    leader = next(iter(leading), "")
    shape, pairs = cut_of_ring(stage.node, leader, stage.arena.cluster.brokers, stage.random)
    rules = {
        node: _rules(
            stage,
            node,
            "counter drop",
            peers=[other for one, other in pairs if one == node],
            clients=False,
            ways=(IN, OUT),
        )
        for node, _ in pairs
    }
    told = await _held(stage, rules, "dropped")
    return told and f"{shape} {' '.join('|'.join(pair) for pair in pairs)}: {told}"


async def flap(stage: Stage) -> str:
    """A link that fails and heals, again and again; the last heal is the end."""
    rules = _around(stage, "counter drop")
    end = time.monotonic() + stage.seconds
    async with _filtered(stage, {}) as found:
        while time.monotonic() < end or not await found.packets():
            await found.set(rules)
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
            await found.set({})
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
            if time.monotonic() > end + EFFECT_SECONDS_MAX:
                break
        met = await found.packets()
    return f"dropped {met} packets" if met else ""


async def loss(stage: Stage) -> str:
    """Single packets are lost; TCP sends them again."""
    percent = stage.random.choice((2, 10))
    verdict = f"numgen random mod 100 < {percent} counter drop"
    return await _held(stage, _around(stage, verdict), f"{percent} % lost:")


async def reset(stage: Stage) -> str:
    """Every packet is answered with RST."""
    rules = _around(stage, f"{NO_RESET} counter reject with tcp reset")
    return await _held(stage, rules, "RST for")


async def syn_hole(stage: Stage) -> str:
    """Connections end, and dialling again is not answered."""
    swallow = _around(stage, "tcp flags & (syn | ack) == syn counter drop")
    end = _around(stage, f"{NO_RESET} reject with tcp reset")
    async with _filtered(stage, {node: [*swallow[node], *end[node]] for node in swallow}) as found:
        await asyncio.sleep(RESET_SECONDS)
        await found.set(swallow)
        await stage.hold()
        met = await _met(found.packets)
    return f"{met} SYNs were not answered" if met else ""


async def bandwidth(stage: Stage) -> str:
    """Limits the bytes that leave the node to a few kilobytes a second (tbf)."""
    network = _network(stage)
    rate = stage.random.choice(("400kbit", "4mbit"))
    device = ("qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate)
    network.run(stage.node, "tc", *device, "burst", "4kb", "latency", "400ms")
    try:
        await stage.hold()
        met = await _met(lambda: asyncio.to_thread(_overlimits, network, stage.node))
    finally:
        network.run(stage.node, "tc", "qdisc", "delete", "dev", "eth0", "root")
    return f"{rate}: {met} packets had to wait" if met else ""


def _overlimits(network: Namespaces, node: str) -> int:
    """How often the bucket was empty."""
    said = json.loads(network.run(node, "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
    return sum(int(row.get("overlimits", 0)) for row in said)


FAULTS: dict[str, Fault] = {
    "partition": partition,
    "one-way": one_way,
    "ring": ring,
    "flap": flap,
    "loss": loss,
    "reset": reset,
    "syn-hole": syn_hole,
    "bandwidth": bandwidth,
}
