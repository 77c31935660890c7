"""Kinds 18–30: faults that this package's link proxies do to the bytes between nodes, and to and
from clients.

    peer n0>n1       Raft frames, each with a checksum
    forward n0>n1    client requests passed on to the leader
    client client>n1 requests and answers of clients

Damage is done to peer links only: the remoting protocol of RocketMQ has no checksum, so a flipped
bit in a client's body is stored as it came, and nobody promises otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from chaos.drivers.groups import cut_of_ring, is_split_in_two
from chaos.drivers.stage import Fault, Stage
from chaos.live.arena import CLIENT
from chaos.live.link_proxy import LinkProxy
from chaos.live.shape import Shape
from commitlog.address import split_address

EFFECT_SECONDS_MAX = 5.0
DIAL_SECONDS = 0.4  # a dial on loopback that takes longer is not answered at all
FLAP_SECONDS = (0.05, 0.5)
CLOSE_DELAY_SECONDS = 0.5


class Seen:
    """The effects on the bytes of some links since a moment."""

    def __init__(self, links: Iterable[LinkProxy]) -> None:
        self._links = list(links)
        self._before = self._sum()

    def _sum(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for link in self._links:
            total.update(link.effects)
        return total

    def any(self, *wanted: str) -> bool:
        """Whether one of these effects was seen."""
        seen = self._sum() - self._before
        return any(seen[name] for name in wanted)

    def tell(self, *wanted: str) -> str:
        """All that was seen as a sentence; "" when none of `wanted` is in it."""
        seen = self._sum() - self._before
        if not self.any(*wanted):
            return ""
        return ", ".join(f"{name}: {count}" for name, count in sorted(seen.items()))

    async def hold(self, stage: Stage, *wanted: str) -> str:
        """As long as planned, and until an effect is seen: a quiet link needs a while."""
        await stage.hold()
        await stage.until(lambda: self.any(*wanted), EFFECT_SECONDS_MAX)
        return self.tell(*wanted)


@contextlib.contextmanager
def healed(links: Iterable[LinkProxy]) -> Iterator[Seen]:
    """Heals these links at the end; gives the effects on their bytes meanwhile."""
    chosen = list(links)
    try:
        yield Seen(chosen)
    finally:
        for link in chosen:
            link.heal()


def _of(stage: Stage, *kinds: str) -> list[LinkProxy]:
    """The node's links of some kinds ("peer", "forward", "client"); all without one."""
    return [
        link
        for name, link in stage.arena.mesh.links.items()
        if (not kinds or name.partition(" ")[0] in kinds)
        and any(node in {link.source, link.target} for node in stage.nodes)
    ]


async def partition(stage: Stage) -> str:
    """Drops all bytes to and from the node; its connections stay open, so neither side sees an
    error.

    Several are each alone, or one half: they see each other, and clients see both halves.
    """
    links = _of(stage)
    if is_split_in_two(stage.nodes, stage.random) and stage.others:
        side = {CLIENT, *stage.nodes}
        links = [link for link in links if not {link.source, link.target} <= side]
    with healed(links) as seen:
        for link in links:
            link.drop()
        return await seen.hold(stage, "dropped bytes")


async def one_way(stage: Stage) -> str:
    """The node can send but not receive, or receive but not send."""
    deaf = stage.random.random() < 0.5
    links = _of(stage, "peer", "forward")
    with healed(links) as seen:
        for link in links:
            towards = link.target in stage.nodes
            link.drop(forward=towards is deaf, backward=towards is not deaf)
        return await seen.hold(stage, "dropped bytes")


async def ring(stage: Stage) -> str:
    """One edge is cut: two nodes see the third and not each other; of five more may be cut."""
    leading = [node for node in stage.others if await stage.leads(node)]
    leader = next(iter(leading), "")
    shape, pairs = cut_of_ring(stage.node, leader, stage.arena.cluster.brokers, stage.random)
    links = [link for one, other in pairs for link in stage.arena.mesh.between(one, other)]
    with healed(links) as seen:
        for link in links:
            link.drop()
        told = await seen.hold(stage, "dropped bytes")
    return told and f"{shape} {' '.join('|'.join(pair) for pair in pairs)}: {told}"


async def flap(stage: Stage) -> str:
    """Links that fail and heal, again and again, and the last heal is the end; or swizzled."""
    if stage.random.random() < 0.3:
        return await swizzled(stage)
    links = _of(stage, "peer", "client")
    end = time.monotonic() + stage.seconds
    with healed(links) as seen:
        while time.monotonic() < end:
            for link in links:
                link.cut()
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
            for link in links:
                link.heal()
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
        return seen.tell("closed", "refused")


async def swizzled(stage: Stage) -> str:
    """Links clog one after the other, and flow again one by one in another order."""
    links = _of(stage, "peer")
    pause = stage.seconds / (2 * len(links))
    with healed(links) as seen:
        for begins in (True, False):
            for link in stage.random.sample(links, len(links)):
                link.freeze() if begins else link.heal()
                await asyncio.sleep(pause)
        told = seen.tell("held bytes")
    return told and f"{len(links)} links clogged in one order and healed in another: {told}"


async def clog(stage: Stage) -> str:
    """Bytes wait, then all of them arrive in order: stale words of an old term."""
    links = _of(stage, "peer")
    outwards = stage.random.random() < 0.5
    with healed(links) as seen:
        for link in links:
            if not outwards or link.source in stage.nodes:
                link.freeze()
        return await seen.hold(stage, "held bytes")


async def latency(stage: Stage) -> str:
    """Kind 23: delays each chunk by 5, 20 or 80 ms, and by a random part of that once more."""
    mean = stage.random.choice((0.005, 0.02, 0.08))
    return await _shaped(stage, Shape(latency=mean, jitter=mean), "delayed")


async def bandwidth(stage: Stage) -> str:
    """Caps each direction of the node's connections to other nodes at 50 or 500 KB/s."""
    rate = stage.random.choice((50e3, 500e3))
    return await _shaped(stage, Shape(bandwidth=rate), "capped bytes", kinds=("peer",))


async def slices(stage: Stage) -> str:
    """Passes up to 200 pieces of 1, 7 or 100 bytes of a chunk 0.5 ms apart, then its rest."""
    size = stage.random.choice((1, 7, 100))
    return await _shaped(stage, Shape(slice_size=size, slice_delay=0.0005), "slices")


async def loss(stage: Stage) -> str:
    """Holds 2 or 10 % of the chunks, and all behind them, back for 200 ms, as lost packets do."""
    return await _shaped(stage, Shape(loss=stage.random.choice((0.02, 0.1))), "lost packets")


async def corrupt(stage: Stage) -> str:
    """Flipped bits, repeated and swapped bytes: the frame's checksum must notice each."""
    shape = stage.random.choice((Shape(corrupt=0.2), Shape(duplicate=0.2), Shape(reorder=0.2)))
    wanted = ("flipped bits", "duplicated", "reordered")
    return await _shaped(stage, shape, *wanted, kinds=("peer",))


async def replay(stage: Stage) -> str:
    """Whole requests of clients arrive twice: a numbered message is stored once all the same."""
    shape = Shape(replay=stage.random.choice((1, 3)))
    links = [link for link in _of(stage, "client", "forward") if link.target in stage.nodes]
    with healed(links) as seen:
        for link in links:
            link.shape(shape, backward=False)
        return await seen.hold(stage, "replayed frames")


async def _shaped(stage: Stage, shape: Shape, *wanted: str, kinds: tuple[str, ...] = ()) -> str:
    shape = replace(shape, seed=stage.random.getrandbits(32))
    links = _of(stage, *kinds)
    with healed(links) as seen:
        for link in links:
            link.shape(shape)
        return await seen.hold(stage, *wanted)


async def reset(stage: Stage) -> str:
    """Connections end with RST, at once or in the middle of a frame; or one side ends first."""
    if stage.random.random() < 0.3:
        return await half_closed(stage)
    links = _of(stage)
    with healed(links) as seen:
        if stage.random.random() < 0.5:
            shape = Shape(cut_after=stage.random.choice((700, 5000)))
            for link in links:
                link.shape(shape)
            await stage.hold()
        end = time.monotonic() + stage.seconds
        while time.monotonic() < end:
            for link in links:
                link.reset()
            await asyncio.sleep(0.2)
        return seen.tell("reset", "cut")


async def half_closed(stage: Stage) -> str:
    """One direction ends in mid-frame, politely; the other side learns it a while later."""
    links = _of(stage)
    shape = Shape(cut_after=stage.random.choice((700, 5000)), cut_politely=True)
    with healed(links) as seen:
        for link in links:
            link.close_delay = CLOSE_DELAY_SECONDS
            link.shape(shape, backward=False)
        try:
            told = await seen.hold(stage, "half-closed")
        finally:
            for link in links:
                link.close_delay = 0.0
    return told and f"one side ended {CLOSE_DELAY_SECONDS:g} s before the other; {told}"


async def syn_hole(stage: Stage) -> str:
    """Open connections live; new ones are never answered. Some are reset, so that clients have to
    dial."""
    links = [link for link in _of(stage) if link.target in stage.nodes]
    holes = []
    try:
        for link in links:
            await link.blackhole_syn()
            holes.append(link)
            if stage.random.random() < 0.5:
                link.reset()
        unanswered = await _is_unanswered(links[0].listen)
        await stage.hold()
    finally:
        for link in holes:
            await link.listen_again()
    return f"a dial to {links[0].listen} was not answered" if unanswered else ""


async def _is_unanswered(address: str) -> bool:
    host, port = split_address(address)
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return True
    except OSError:
        return False
    writer.close()
    return False


FAULTS: dict[str, Fault] = {
    "partition": partition,
    "one-way": one_way,
    "ring": ring,
    "flap": flap,
    "clog": clog,
    "latency": latency,
    "bandwidth": bandwidth,
    "reset": reset,
    "slice": slices,
    "loss": loss,
    "corrupt": corrupt,
    "replay": replay,
    "syn-hole": syn_hole,
}
