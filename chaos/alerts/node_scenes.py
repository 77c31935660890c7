"""Faults of nodes, links and disks, held until their alerts have fired; then they are undone."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from chaos.alerts.place import Place
from chaos.drivers import regions
from chaos.drivers.shim import Mode
from cluster.local import processes
from cluster.security.certificates import Subject, make_all, renew
from commitlog.address import split_address

HANDOVERS = 6
SLOW_SYNC_MS = 800
CLOCK_AHEAD_MS = 30_000
BALLAST = "ballast-of-chaos"
BALLAST_STEP_BYTES = 64 << 20
BLOCK_BYTES = 4096
SCRUB_TRIES = 20
SCRUB_PAUSE_SECONDS = 0.5


@contextlib.asynccontextmanager
async def node_dead(place: Place) -> AsyncIterator[str]:
    """SIGKILL of one follower."""
    node = await place.follower()
    await place.arena.kill(node)
    try:
        yield f"SIGKILL of {node}, which stays down"
    finally:
        await place.arena.restart(node)
        await place.arena.ready()


@contextlib.asynccontextmanager
async def node_paused(place: Place) -> AsyncIterator[str]:
    """SIGSTOP of one follower: its ports accept connections and it never answers."""
    node = await place.follower()
    process = processes.running(place.arena.cluster.folder(node))
    assert process is not None, "a follower runs"
    process.send_signal(signal.SIGSTOP)
    try:
        yield f"SIGSTOP of {node}"
    finally:
        process.send_signal(signal.SIGCONT)
        await place.arena.ready()


@contextlib.asynccontextmanager
async def majority_dead_and_rot(place: Place) -> AsyncIterator[str]:
    """Two of three are down, and the log of the third one has a flipped bit: no peer can help."""
    rotten = await place.follower()
    others = [node for node in place.nodes if node != rotten]
    for node in place.nodes:
        await place.arena.kill(node)
    data = place.arena.cluster.folder(rotten) / "data"
    region = next(one for one in regions.regions(data) if one.kind == regions.LOG)
    await asyncio.to_thread(_flip, region.path, (region.begin + region.end) // 2)
    await place.arena.restart(rotten)
    await _scrubbed(place, rotten)
    try:
        yield f"SIGKILL of {', '.join(others)}; one bit of the log of {rotten} flipped"
    finally:
        for node in others:
            await place.arena.restart(node)
        await place.arena.ready()


def _flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


async def _scrubbed(place: Place, node: str) -> None:
    """The node looks over its log, again and again, until it says that it is damaged."""
    for _ in range(SCRUB_TRIES):
        with contextlib.suppress(OSError):  # it is starting still
            await place.ask(node, scrub=True)
        status = (await place.arena.statuses()).get(node)
        if status and (status["repair"]["damaged"] or status["repair"]["refused"]):
            return
        await asyncio.sleep(SCRUB_PAUSE_SECONDS)
    raise OSError(f"{node} has not noticed the flipped bit")


@contextlib.asynccontextmanager
async def cut_off(place: Place) -> AsyncIterator[str]:
    """One follower has no link to its peers; under load it falls behind."""
    node = await place.follower()
    place.arena.mesh.isolate(node)
    try:
        yield f"{node} cut off from its peers, under load"
    finally:
        place.arena.mesh.heal()
        await place.arena.ready()


@contextlib.asynccontextmanager
async def leader_moves(place: Place) -> AsyncIterator[str]:
    """The lead is handed over again and again, slowly enough for each term to be scraped."""
    for _ in range(HANDOVERS):
        await place.ask(await place.arena.leader(), transfer="")
        await asyncio.sleep(max(2.0, 12.0 / place.faster))
    yield f"{HANDOVERS} hand-overs of the lead"


@contextlib.asynccontextmanager
async def disks_full(place: Place) -> AsyncIterator[str]:
    """A file takes all space of every node's own disk."""
    paths = [place.arena.cluster.folder(node) / "data" / BALLAST for node in place.nodes]
    try:
        sizes = [await asyncio.to_thread(_fill, path) for path in paths]
        for node in place.nodes:
            with contextlib.suppress(OSError):
                await place.ask(node, sweep=True)
        yield f"no space left on the disks of all nodes ({sum(sizes) >> 20} MiB of ballast)"
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
        await place.arena.ready()


def _fill(path: Path) -> int:
    """All the space that is free, to the last block; bytes it took."""
    with path.open("wb") as file:
        at, step = 0, BALLAST_STEP_BYTES
        while step >= BLOCK_BYTES:
            try:
                os.posix_fallocate(file.fileno(), at, step)
                at += step
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                step //= 2
    return at


@contextlib.asynccontextmanager
async def slow_disk(place: Place) -> AsyncIterator[str]:
    """Every sync of one follower takes longer."""
    assert place.shims is not None, "the scene's needs say so"
    node = await place.follower()
    with place.shims[node].faulty(sync=Mode.SLOW, delay_ms=SLOW_SYNC_MS):
        yield f"each sync of {node} takes {SLOW_SYNC_MS} ms more"
    await place.arena.ready()


@contextlib.asynccontextmanager
async def hung_disk(place: Place) -> AsyncIterator[str]:
    """No sync of the leader comes back."""
    assert place.shims is not None, "the scene's needs say so"
    node = await place.arena.leader()
    with place.shims[node].faulty(sync=Mode.HANG):
        yield f"syncs of {node}, which led, do not come back"
    await place.arena.ready()


@contextlib.asynccontextmanager
async def clock_off(place: Place) -> AsyncIterator[str]:
    """The wall clock of one follower jumps ahead."""
    node = await place.follower()
    await place.ask(node, clock={"wall_ms": CLOCK_AHEAD_MS})
    try:
        yield f"wall clock of {node} {CLOCK_AHEAD_MS // 1000} s ahead"
    finally:
        await place.ask(node, clock={"wall_ms": 0})


@contextlib.asynccontextmanager
async def certificate_ends(place: Place, days: int) -> AsyncIterator[str]:
    """A follower's certificate for clients ends within so many days; it is renewed."""
    node, folder = await place.follower(), place.folder / "certificates"
    await asyncio.to_thread(make_all, folder, [Subject(node)], days)
    pem = folder / f"{node}.pem"
    place.arena.cluster.environment[node] = {
        "DLEDGER_BROKER_TLS_MODE": "permissive",
        "DLEDGER_BROKER_TLS_CERTIFICATE": str(pem),
        "DLEDGER_BROKER_TLS_KEY": str(pem.with_suffix(".key")),
    }
    await place.arena.kill(node)
    await place.arena.restart(node)
    await place.arena.ready()
    try:
        yield f"the certificate of {node} ends in {days} d"
    finally:
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=30)
        await asyncio.to_thread(renew, folder, soon)


@contextlib.asynccontextmanager
async def port_taken(place: Place) -> AsyncIterator[str]:
    """Another program listens at the client port of a node that comes back.

    A node that comes back binds that port at once, and listens when it knows a leader or after 2 s:
    so it is cut off until the other program listens.
    """
    node = await place.follower()
    host, port = split_address(place.arena.cluster.profile.member(node).client)
    place.arena.mesh.isolate(node)
    await place.arena.kill(node)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        try:
            await _start_unchecked(place, node)
            await place.answers(node)
            other.listen()
            place.arena.mesh.heal()
            yield f"another program has the client port of {node}"
        finally:
            place.arena.mesh.heal()
            other.close()
            await place.arena.ready()


async def _start_unchecked(place: Place, node: str) -> None:
    cluster = place.arena.cluster
    checked = cluster.check_ports
    setattr(cluster, "check_ports", lambda _: None)  # noqa: B010  # the launcher would refuse
    try:
        await place.arena.restart(node)
    finally:
        setattr(cluster, "check_ports", checked)  # noqa: B010


@contextlib.asynccontextmanager
async def newer_record(place: Place) -> AsyncIterator[str]:
    """An entry of a kind that this version does not know is committed."""
    await place.ask(await place.arena.leader(), record="an entry of a newer version")
    yield "an entry of an unknown kind in the log"


@contextlib.asynccontextmanager
async def mistake(place: Place) -> AsyncIterator[str]:
    """A mistake in the leader's own code ends one connection."""
    await place.ask(await place.arena.leader(), mistake=True)
    yield "an exception in the leader's code while it serves a request"
