"""Injects the faults of links through a toxiproxy server: `--network toxiproxy`.

Source: docs/spec/chaos.md 3.3.

    partition, one-way, ring   `timeout` 0 on both streams, or on one: bytes vanish without an error
    clog, the old leader       `bandwidth` 0: bytes wait and arrive in order
    flap                       disabled and enabled again
    latency, bandwidth, slice  the toxics of these names
    reset                      `limit_data` in mid-frame, then `reset_peer`

Each function returns a sentence about the fault's effect, "" if it had none. The server counts
vanished bytes: those that came less those that it passed on. Other effects are measured by requests
and *knocks* through the proxies; a knock is bytes that are no frame (toxic_probe.py). The schedule
makes all random choices: the official server's cannot be repeated, so toxicity is 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from chaos.drivers.links import EFFECT_SECONDS_MAX, FLAP_SECONDS
from chaos.drivers.stage import Fault, Stage
from chaos.drivers.toxic_probe import ask, knock
from chaos.live.toxic_arena import ToxicArena
from chaos.live.toxic_links import BOTH, ToxicLink, ToxicLinks
from chaos.toxiproxy.toxics import DOWNSTREAM, UPSTREAM

POLL_SECONDS = 0.05
RESET_SECONDS = 0.2
KNOCKS = 8  # of one round; the quickest counts, since a busy machine slows single ones by itself
ROUNDS_MIN = 4  # of knocks, each late, one after the other
KNOCK_SECONDS_MAX = 2.0
KNOCK_BYTES = 8_000
TAKE_SECONDS = 0.1  # the official server passes capped bytes on ten times a second
SHARE_SEEN = 0.8  # of a delay that must be measured: timers are coarse
PIECES_MIN = 3
OLD_LEADER_SECONDS = 2.0  # more than three election timeouts
SUCCESSOR_SECONDS_MAX = 15.0


def _toxic(stage: Stage) -> ToxicLinks:
    assert isinstance(stage.arena, ToxicArena), "only in an arena of toxics"
    return stage.arena.toxic


@contextlib.asynccontextmanager
async def _healed(stage: Stage, links: Iterable[ToxicLink]) -> AsyncIterator[ToxicLinks]:
    """Heals these links at the end, also after an error."""
    toxic, chosen = _toxic(stage), list(links)
    try:
        yield toxic
    finally:
        await asyncio.shield(toxic.heal(chosen))


# -- bytes that vanish


async def _vanish(stage: Stage, streams: Mapping[ToxicLink, tuple[str, ...]]) -> str:
    """Let the bytes of these streams vanish for the planned time; tells how many did."""
    before = await _toxic(stage).swallowed(streams)
    async with _healed(stage, streams) as toxic:
        for link, some in streams.items():
            await toxic.add([link], "timeout", some, timeout=0)
        await stage.hold()
    end = time.monotonic() + EFFECT_SECONDS_MAX
    while True:  # bounded by `end`; the heal ends connections, and the server counts them then
        gone = await toxic.swallowed(streams) - before
        if gone.total() > 0 or time.monotonic() > end:
            return _told(toxic, gone)
        await asyncio.sleep(POLL_SECONDS)


def _told(toxic: ToxicLinks, gone: Counter[str]) -> str:
    if gone.total() <= 0:
        return ""
    return f"{toxic.server} swallowed {gone.total()} bytes of {len(gone)} links"


async def partition(stage: Stage) -> str:
    """Drops all bytes to and from the node; its connections stay open, so neither side sees an
    error."""
    return await _vanish(stage, dict.fromkeys(_toxic(stage).of(stage.nodes), BOTH))


async def one_way(stage: Stage) -> str:
    """The node can send but not receive, or the reverse: one stream of each link is cut."""
    deaf = stage.random.random() < 0.5
    streams: dict[ToxicLink, tuple[str, ...]] = {}
    for link in _toxic(stage).of(stage.nodes, "peer", "forward"):
        towards = link.target in stage.nodes
        streams[link] = (UPSTREAM,) if towards is deaf else (DOWNSTREAM,)
    told = await _vanish(stage, streams)
    return told and f"{told}, {'to' if deaf else 'from'} {', '.join(stage.nodes)}"


async def ring(stage: Stage) -> str:
    """Cuts the links between the node and the leader, or another node if the node leads."""
    leading = [node for node in stage.others if await stage.leads(node)]
    other = stage.random.choice(leading or stage.others)
    edge = _toxic(stage).between(stage.node, other)
    told = await _vanish(stage, dict.fromkeys(edge, BOTH))
    return told and f"{stage.node} and {other}: {told}"


# -- bytes that wait


async def _frozen(stage: Stage, links: list[ToxicLink], hold: Callable[[], Awaitable[None]]) -> str:
    """Hold bytes back during `hold`. It worked if a request among them is answered only later."""
    asked = stage.random.choice([link for link in links if link.kind == "forward"])
    async with _healed(stage, links) as toxic:
        await toxic.add(links, "bandwidth", rate=0)
        longest = stage.seconds + SUCCESSOR_SECONDS_MAX + EFFECT_SECONDS_MAX
        talk = asyncio.create_task(ask(asked, longest))
        try:
            await hold()
            early = talk.done()
        except BaseException:
            talk.cancel()
            raise
    answer = await talk
    if early or answer.end != "answered":
        return ""
    return f"{toxic.server} held a request on {asked.name} for {answer.seconds:.2f} s"


async def clog(stage: Stage) -> str:
    """Holds bytes back, then delivers them in order: messages of an old term come late."""
    links = _toxic(stage).of(stage.nodes, "peer", "forward")
    if stage.random.random() < 0.5:
        links = [link for link in links if link.source in stage.nodes]
    return await _frozen(stage, links, stage.hold)


async def old_leader_returns_with_queue(stage: Stage) -> str:
    """Holds back all bytes that the leader sends until another node leads, then delivers them."""
    leader, successor = await stage.arena.leader(), ""

    async def until_replaced() -> None:
        nonlocal successor
        await asyncio.sleep(OLD_LEADER_SECONDS)
        successor = await stage.arena.leader(other_than=leader, seconds_max=SUCCESSOR_SECONDS_MAX)

    outward = [
        link for link in _toxic(stage).of([leader], "peer", "forward") if link.source == leader
    ]
    held = await _frozen(stage, outward, until_replaced)
    return held and f"{successor} led while {leader} was held; {held}"


# -- bytes that are late


async def _quickest(links: Iterable[ToxicLink], size: int) -> tuple[float, ToxicLink]:
    """Knock several times on each link; returns the shortest time and its link."""
    found = []
    for link in links:
        for _ in range(KNOCKS):
            answer = await knock(link, KNOCK_SECONDS_MAX, size)
            if answer.end in ("ended", "reset"):
                found.append((answer.seconds, link.name, link))
    if not found:
        raise OSError("no node answered a knock")
    seconds, _, link = min(found)
    return seconds, link


async def _late(
    stage: Stage, kinds: tuple[str, ...], size: int, late: float, kind: str, **values: Any
) -> str:
    """Add a toxic for the planned time; it worked if it delayed knocks by nearly `late` seconds.

    A busy machine is slow for a moment, or before and after as well. So several rounds of knocks in
    a row must be slower by that than the knocks before the toxic, and than those after it.
    """
    links = _toxic(stage).of(stage.nodes, *kinds)
    peers = [link for link in links if link.kind == "peer" and link.target in stage.nodes]
    before, link = await _quickest(peers, size)
    async with _healed(stage, links) as toxic:
        await toxic.add(links, kind, **values)
        end = time.monotonic() + stage.seconds
        meanwhile, rounds = math.inf, 0
        while rounds < ROUNDS_MIN:  # the node may be down; bounded by the time
            if time.monotonic() > end + EFFECT_SECONDS_MAX:
                return ""
            found, _ = await _quickest([link], size)
            is_late = found - before >= SHARE_SEEN * late
            meanwhile, rounds = (min(found, meanwhile), rounds + 1) if is_late else (math.inf, 0)
            await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
    after, _ = await _quickest([link], size)
    if meanwhile - after < SHARE_SEEN * late:
        return ""
    took = f"{size} bytes on {link.name} took {meanwhile:.3f} s instead of {before:.3f} s"
    return f"{toxic.server}: {took}"


async def latency(stage: Stage) -> str:
    """Delays bytes, with a jitter of half the delay."""
    mean = stage.random.choice((40, 80))
    values: dict[str, Any] = {"latency": mean, "jitter": mean // 2}
    return await _late(stage, (), 64, mean / 2e3, "latency", **values)


async def bandwidth(stage: Stage) -> str:
    """Limits the rate of each link between peers; knocks on it show by how much."""
    rate = stage.random.choice((50, 200))
    late = min(TAKE_SECONDS, KNOCK_BYTES / 1e3 / rate)
    return await _late(stage, ("peer",), KNOCK_BYTES, late, "bandwidth", rate=rate)


async def slices(stage: Stage) -> str:
    """Bytes arrive a few at a time: the answer to a request comes in pieces."""
    size = stage.random.choice((60, 200))
    links = _toxic(stage).of(stage.nodes)
    (client,) = (one for one in links if one.kind == "client" and one.target == stage.node)
    before = await ask(client, KNOCK_SECONDS_MAX)
    async with _healed(stage, links) as toxic:
        values: dict[str, Any] = {"average_size": size, "size_variation": size // 4, "delay": 300}
        await toxic.add(links, "slicer", **values)
        end = time.monotonic() + stage.seconds
        meanwhile = await ask(client, EFFECT_SECONDS_MAX)
        while meanwhile.pieces < max(PIECES_MIN, before.pieces + 1):  # bounded by the time
            if time.monotonic() > end + EFFECT_SECONDS_MAX:
                return ""
            await asyncio.sleep(POLL_SECONDS)
            meanwhile = await ask(client, EFFECT_SECONDS_MAX)
        await asyncio.sleep(max(0.0, end - time.monotonic()))
    pieces = f"{meanwhile.size} bytes in {meanwhile.pieces} pieces instead of {before.pieces}"
    return f"{toxic.server}: {pieces}"


# -- connections that end


async def flap(stage: Stage) -> str:
    """Cuts and heals links again and again; the fault ends with the last heal."""
    links = _toxic(stage).of(stage.nodes, "peer", "client")
    inward = [link for link in links if link.target in stage.nodes]
    end = time.monotonic() + stage.seconds
    times, ends = 0, Counter[str]()
    async with _healed(stage, links) as toxic:
        while not times or time.monotonic() < end:
            await toxic.down(links)
            ends[(await knock(stage.random.choice(inward), KNOCK_SECONDS_MAX)).end] += 1
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
            await toxic.heal(links)
            times += 1
            await asyncio.sleep(stage.random.uniform(*FLAP_SECONDS))
    if ends["refused"] < times:
        return ""
    return f"{toxic.server} was down {times} times; each time a dial was refused"


async def reset(stage: Stage) -> str:
    """Ends connections in the middle of a frame, some with RST, again and again.

    A node that is down answers with RST, too. So a request that was reset counts only if the next
    request, after the heal, is answered.
    """
    links = _toxic(stage).of(stage.nodes)
    inward = [one for one in links if one.target in stage.nodes and one.kind != "peer"]
    answers: list[tuple[str, str]] = []
    async with _healed(stage, links) as toxic:
        if stage.random.random() < 0.5:
            await toxic.add(links, "limit_data", bytes=stage.random.choice((700, 5000)))
            await stage.hold()
            await toxic.heal(links)
        end = time.monotonic() + stage.seconds
        while not answers or time.monotonic() < end:
            await toxic.add(links, "reset_peer", timeout=0)
            link = stage.random.choice(inward)
            during = await ask(link, KNOCK_SECONDS_MAX)
            await asyncio.sleep(RESET_SECONDS)
            await toxic.heal(links)
            after = await ask(link, KNOCK_SECONDS_MAX)
            answers.append((during.end, after.end))
            await asyncio.sleep(RESET_SECONDS)
    resets = answers.count(("reset", "answered"))
    return f"{toxic.server} reset {resets} of {len(answers)} requests" if resets else ""


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
    "old-leader-returns-with-queue": old_leader_returns_with_queue,
}
