"""Connections: right peers meet, wrong ones are told why, rubbish costs one connection."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections.abc import Callable

import pytest

from dledger.core.messages import AppendEntries, AppendReply, Heartbeat
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.membership.handshake import LinkKind
from dledger.runtime.host_parts import GREETING_PER_HOST_MAX, greeting_max
from dledger.runtime.peer_port import GREETING_MAX
from dledger.wire.frames import FRAME, FrameType, pack_frame

from .ends import Make, append, beat, meet
from .group import PORT, until

SECRET = "a shared secret"


@pytest.mark.parametrize("secret", [None, SECRET])
async def test_messages_travel_on_the_lane_of_their_kind(make: Make, secret: str | None) -> None:
    one, two = make("n0", secret=secret), make("n1", secret=secret)
    await meet(one, two)
    reply = AppendReply(
        one.name, Term(1), True, Index(-1), Index(0), Index(0), EntryId(Term(-1), Index(-1))
    )
    raw = bytes(range(256)) * 8192  # 2 MiB
    one.transport.send(two.name, beat("n0"))
    one.transport.send(two.name, append("n0", raw))
    one.transport.send(two.name, reply)
    await until(lambda: len(two.got) == 3)
    assert two.raw == [raw]
    assert {type(message) for message in two.got} == {Heartbeat, AppendEntries, AppendReply}
    status = one.transport.status()
    assert status["n1/control"].sent_frames == 1
    assert status["n1/bulk"].sent_frames == 2


async def test_silence_is_limited_on_every_connection(make: Make) -> None:
    one, two = make("n0"), make("n1")
    await meet(one, two)
    outbound = one.transport.links[two.name, LinkKind.BULK]._outbound
    assert outbound is not None
    assert outbound.transport is not None
    raw = outbound.transport.get_extra_info("socket")
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 2000
    for inbound in two.transport.inbound.values():
        assert inbound.transport is not None
        raw = inbound.transport.get_extra_info("socket")
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_a_source_address_of_its_own_is_bound(make: Make) -> None:
    one, two = make("n0"), make("n1")
    await meet(one, two)
    hosts = {
        inbound.transport.get_extra_info("peername")[0]  # type: ignore[union-attr]
        for inbound in two.transport.inbound.values()
    }
    assert hosts == {one.config.peers["n0"][0]}


async def test_a_proxy_can_sit_on_one_directed_link(
    make: Make, new_address: Callable[[], str]
) -> None:
    """`dial` names the proxy; nothing of the other direction passes through it."""
    host, passed = new_address(), 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal passed
        there_reader, there_writer = await asyncio.open_connection(*one.config.peers["n1"])

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                target.write(data)
            target.close()

        passed += 1
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    proxy = await asyncio.start_server(relay, host, PORT)
    one, two = make("n0", dial={"n1": (host, PORT)}), make("n1")
    await meet(one, two)
    one.transport.send(two.name, beat("n0"))
    two.transport.send(one.name, beat("n1"))
    await until(lambda: bool(one.got and two.got))
    assert passed == 2, "the two lanes of n0 → n1 and nothing else"
    await one.transport.stop()
    await two.transport.stop()
    proxy.close()


async def test_wrong_group_cluster_secret_and_incarnation_are_said(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = make("n0", secret=SECRET)
    await one.transport.start()
    with caplog.at_level(logging.WARNING):
        stranger = make("n1", group="other", secret=SECRET)
        await stranger.transport.start()
        await until(lambda: "is of group" in stranger.error("n0"))
        await stranger.transport.stop()
        unknowing = make("n1", secret="another secret")
        await unknowing.transport.start()
        await until(lambda: "secret" in unknowing.error("n0"))
        await unknowing.transport.stop()
        one.refuse = "n1 comes back as another one"
        wiped = make("n1", incarnation=8, secret=SECRET)
        await wiped.transport.start()
        await until(lambda: "comes back" in wiped.error("n0"))
    assert not one.got
    texts = [record.getMessage() for record in caplog.records if "is of group" in record.message]
    assert 2 <= len(texts) <= 12, "each side says the 1st, 2nd, 4th ..., not every attempt"


async def test_much_rubbish_does_not_hide_why_a_peer_is_refused(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = make("n0", secret=SECRET)
    await one.transport.start()
    with caplog.at_level(logging.WARNING):
        for _ in range(5):  # the 3rd of a kind is not told, nor the 5th
            reader, writer = await asyncio.open_connection(*one.config.peers["n0"])
            writer.write(bytes(64))
            assert await reader.read() == b""
            writer.close()
        await until(lambda: "(4 like it so far)" in caplog.text)
        stranger = make("n1", group="other", secret=SECRET)
        await stranger.transport.start()
        told = "n0: closed a connection: "
        await until(lambda: any(m.startswith(told) and "group" in m for m in caplog.messages))
    first = next(m for m in caplog.messages if m.startswith(told) and "group" in m)
    assert "like it so far" not in first, "it is told at the first time"


async def test_rubbish_closes_that_connection_only(make: Make) -> None:
    one, two = make("n0"), make("n1")
    await meet(one, two)
    for rubbish in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        FRAME.pack(0xFFFFFFFF, FrameType.APPEND, 0, 0, 56, 0),
        pack_frame(FrameType.HEARTBEAT, bytes(24)),
        bytes(64),
    ):
        reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
        writer.write(rubbish)
        assert await reader.read() == b"", "closed without an answer"
        writer.close()
    one.transport.send(two.name, beat("n0"))
    await until(lambda: bool(two.got))
    assert not two.lost
    assert not one.lost


async def test_a_peer_that_breaks_the_rules_loses_its_connection_and_dials_again(
    make: Make,
) -> None:
    one, two = make("n0"), make("n1")
    await meet(one, two)
    control = one.transport.links[two.name, LinkKind.CONTROL]
    control.send([pack_frame(FrameType.APPEND, bytes(56))])  # bulk on the control lane
    await until(lambda: ("n0", LinkKind.CONTROL, False) in two.lost)
    await until(lambda: ("n1", LinkKind.CONTROL, True) in one.lost)
    await until(lambda: one.open("n1"))
    one.transport.send(two.name, beat("n0"))
    await until(lambda: bool(two.got))


async def test_strays_that_say_nothing_do_not_crowd_peers_out(make: Make) -> None:
    two = make("n1")
    await two.transport.start()
    address = two.config.peers["n1"]
    strays = [await asyncio.open_connection(*address) for _ in range(GREETING_MAX + 5)]
    one = make("n0")
    await one.transport.start()
    await until(lambda: one.open("n1"))
    assert len(two.transport.peer_port.greeting) <= GREETING_MAX
    for _, writer in strays:
        writer.close()


async def test_many_strays_at_once_hold_no_more_than_their_share(make: Make) -> None:
    """The end of a connection is told later than the next ones come."""
    two = make("n1")
    await two.transport.start()
    port = two.transport.peer_port
    strays = [port._accept() for _ in range(GREETING_MAX + 40)]
    assert list(port.greeting) == strays[40:]
    assert [stray._closed for stray in strays] == [True] * 40 + [False] * GREETING_MAX


@pytest.mark.parametrize(
    ("limit", "found"),
    [(1024, 102), (5, 1), (1 << 20, GREETING_PER_HOST_MAX), (-1, GREETING_PER_HOST_MAX)],
)
def test_strays_of_a_host_take_a_share_of_its_descriptors(
    limit: int, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert greeting_max() == found


async def test_silence_instead_of_a_hello_ends(make: Make) -> None:
    two = make("n1", connection_timeout_ms=600)
    await two.transport.start()
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    assert await reader.read() == b""
    writer.close()


async def test_a_peer_that_comes_back_is_dialled_at_once(make: Make) -> None:
    one, two = make("n0", reconnect_max_ms=60_000, reconnect_min_ms=60_000), make("n1")
    await one.transport.start()
    await until(lambda: "not dialled" not in one.error("n1"))
    await two.transport.start()
    await until(lambda: one.open("n1"))


async def test_bulk_that_does_not_fit_is_refused_and_control_drops_its_oldest(
    make: Make,
) -> None:
    """A peer that does not read: nothing grows beyond its bound, and heartbeats stay fresh."""
    limits = {"bulk_queue_bytes_max": 16 << 20, "control_queue_bytes_max": 4096}
    one, two = make("n0", connection_timeout_ms=60_000, **limits), make("n1")
    await meet(one, two)
    for inbound in two.transport.inbound.values():
        assert inbound.transport is not None
        inbound.transport.pause_reading()
    control = one.transport.links[two.name, LinkKind.CONTROL]._outbound
    assert control is not None
    assert control.transport is not None
    small = control.transport.get_extra_info("socket")
    small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)  # or 100,000 heartbeats fit
    raw = bytes(4 << 20)
    for _ in range(20):
        one.transport.send(two.name, append("n0", raw))
    bulk = one.transport.status()["n1/bulk"]
    assert bulk.dropped_frames >= 8
    assert bulk.queued_bytes <= 16 << 20
    count = 0
    while not one.transport.status()["n1/control"].dropped_frames:
        count += 1
        one.transport.send(two.name, beat("n0", count))
        if count % 1000 == 0:
            await asyncio.sleep(0)
    for inbound in two.transport.inbound.values():
        inbound.transport.resume_reading()  # type: ignore[union-attr]
    await until(lambda: bool(two.got) and getattr(two.got[-1], "round", 0) == count)


async def test_sending_to_a_peer_that_is_away_is_counted_and_harmless(make: Make) -> None:
    one = make("n0")
    await one.transport.start()
    one.transport.send(NodeId("n1"), beat("n0"))
    assert one.transport.status()["n1/control"].dropped_frames == 1
