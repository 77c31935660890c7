"""A node of an older version is refused, whoever dials, and never sent what it does not know."""

from __future__ import annotations

import asyncio

import pytest

from dledger.core.types import NodeId
from dledger.errors import PeerRefused
from dledger.membership.handshake import (
    VERSION,
    Dialler,
    LinkKind,
    Member,
    RefusalReason,
    refusal_frame,
)
from dledger.wire.frames import SMALL_FRAME_BYTES_MAX, FrameDecoder, FrameType, pack_frame

from .ends import Make, beat, meet
from .group import until

OLD = VERSION - 1


def old_hello(sender: str, receiver: str) -> bytes:
    """What a node of the version before says first; the version stands behind the magic."""
    me = Member("cluster", "default", NodeId(sender), 7)
    dialler = Dialler(me, NodeId(receiver), LinkKind.CONTROL, None, bytes(16), lambda *_: None)
    (hello,) = frames(dialler.start())
    return pack_frame(FrameType.HELLO, hello[1][:4] + OLD.to_bytes(2, "big") + hello[1][6:])


def frames(data: bytes) -> list[tuple[FrameType, bytes]]:
    decoder = FrameDecoder(SMALL_FRAME_BYTES_MAX)
    decoder.get_buffer()[: len(data)] = data
    return [(frame.type, bytes(frame.head)) for frame in decoder.frames(len(data))]


async def test_an_old_node_that_dials_is_told_why_and_nobody_else_notices(make: Make) -> None:
    one, two = make("n0"), make("n1")
    await meet(one, two)
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    writer.write(old_hello("n0", "n1") + pack_frame(FrameType.HEARTBEAT, bytes(24)))
    ((kind, head),) = frames(await reader.read())
    writer.close()
    assert kind is FrameType.REFUSED
    assert head[:2] == RefusalReason.WRONG_VERSION.to_bytes(2, "big")
    assert f"version {OLD} and this node version {VERSION}" in head[2:].decode()
    assert not two.got, "nothing behind the hello is believed"
    one.transport.send(two.name, beat("n0"))
    await until(lambda: bool(two.got))
    assert not one.lost
    assert not two.lost


async def test_an_old_node_that_is_dialled_gets_a_hello_and_no_more(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[tuple[FrameType, bytes]] = []
    sentence = f"a peer speaks protocol version {VERSION} and this node version {OLD}"

    async def old_node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(SMALL_FRAME_BYTES_MAX)
        refused = PeerRefused(RefusalReason.WRONG_VERSION, sentence)
        writer.write(refusal_frame(refused))
        got.extend(frames(data + await reader.read()))
        writer.close()

    one = make("n0")
    old = await asyncio.start_server(old_node, *one.config.peers["n1"])
    await one.transport.start()
    await until(lambda: sentence in one.error("n1"))
    one.transport.send(NodeId("n1"), beat("n0"))
    assert one.transport.status()["n1/control"].dropped_frames == 1
    await until(lambda: len(got) >= 2)
    await one.transport.stop()
    old.close()
    assert {kind for kind, _ in got} == {FrameType.HELLO}
    assert sentence in caplog.text
