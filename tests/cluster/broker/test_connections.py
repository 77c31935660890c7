"""Bad input costs its own connection; limits on connections; requests in pieces.

Source: docs/spec/remoting.md 1.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import struct

import pytest

from cluster.broker.kernel.net.connection import ClientConnection
from cluster.broker.kernel.net.server import bind
from cluster.limits.partial_frames import PartialFrames
from cluster.protocol.codes import RequestCode, ResponseCode
from cluster.protocol.frames import Frame, decode_frame, encode_frame
from tests.cluster.protocol.test_raw_sends import java
from tests.waiting import within

from .conftest import MakeBrokers
from .harness import bodies, until
from .test_relay_port import RELAY_PORT, end_of_queue, relay_of


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iI", 1 << 30, 10),
        struct.pack(">iI", 100, 0x00FFFFFF),
        struct.pack(">iI", 100, 7 << 24),
        struct.pack(">iI", -5, 0),
        encode_frame(Frame(10, 1)).replace(b"{", b"["),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["too-long", "header-too-long", "unknown-kind", "negative", "no-json", "tls", "http"],
)
async def test_what_is_no_frame_closes_that_connection_only(
    make_brokers: MakeBrokers, data: bytes
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        other = await brokers.client(leader)
        assert (await other.send()).code == 0
        bad = await brokers.client(leader)
        bad.write(data)
        await within(bad.closed, "the end of the connection")
        assert (await other.send()).code == 0


async def test_requests_before_a_bad_frame_are_served(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client, other = await brokers.client(leader), await brokers.client(leader)
        assert (await client.send(body=b"0")).code == 0
        lost = client.send(body=b"1")
        client.write(struct.pack(">iI", 1 << 30, 10))
        await within(client.closed, "the end of the connection")
        assert (await other.send(body=b"2")).code == 0
        assert bodies((await other.pull()).body) == [b"0", b"1", b"2"]
        with pytest.raises(ConnectionError):
            await lost


async def test_frames_may_come_in_pieces(make_brokers: MakeBrokers) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0
        reader, writer = await asyncio.open_connection(*leader.address.split(":"))
        ext = {"topic": "T", "queueId": "0"}
        data = encode_frame(Frame(RequestCode.GET_MAX_OFFSET, 7, ext)) * 3
        for at in range(0, len(data), 11):
            writer.write(data[at : at + 11])
            await writer.drain()
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        assert b'"offset":"1"' in await reader.readexactly(size)
        writer.close()


async def test_connections_are_bounded_and_the_others_go_on(make_brokers: MakeBrokers) -> None:
    async with make_brokers(connections_max=2) as brokers:
        leader = await brokers.leader()
        first = await brokers.client(leader)
        await brokers.client(leader)
        await until(lambda: len(leader.parts.server.connections) == 2)
        third = await brokers.client(leader)
        await within(third.closed, "the end of the connection")
        assert (await first.send()).code == 0
        assert leader.parts.server.refused == 1


async def test_idle_connections_are_closed(make_brokers: MakeBrokers) -> None:
    async with make_brokers(idle_seconds_max=0.1) as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        assert (await client.send()).code == 0

        def is_closed() -> bool:
            leader.parts.server.close_idle()
            return client.closed.done()

        await until(is_closed)


async def test_a_client_that_does_not_read_is_not_read_from(
    make_brokers: MakeBrokers, request: pytest.FixtureRequest
) -> None:
    """Its answers pile up only so far; the broker and others go on."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        client = await brokers.client(leader)
        for _ in range(4):
            assert (await client.send(body=bytes(200_000))).code == 0
        host, _, port = leader.address.rpartition(":")
        lazy = socket.create_connection((host, int(port)))
        lazy.setblocking(False)
        pull = {
            "consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "0",
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subVersion": "0", "subscription": "*",
        }  # fmt: skip
        data = encode_frame(Frame(RequestCode.PULL_MESSAGE, 1, pull)) * 400
        request.addfinalizer(lazy.close)
        await asyncio.get_running_loop().sock_sendall(lazy, data)
        connection = await until(
            lambda: next((c for c in leader.parts.server.connections if c.is_paused), None)
        )
        assert (await client.send()).code == 0
        assert connection.unsent_size < 8 << 20
        lazy.close()
        await until(lambda: len(leader.parts.server.connections) == 1)


async def test_a_taken_port_is_said_plainly(make_brokers: MakeBrokers, free_address: str) -> None:
    taken = bind(free_address, 0)
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(OSError, match=f"cannot listen on {free_address}:{port}"):
        bind(free_address, port)
    taken.close()


async def test_pipelined_requests_of_one_client_do_not_hold_up_another(
    make_brokers: MakeBrokers,
) -> None:
    """The other one is answered while most of what the first sent in one piece still waits."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        greedy, other = await brokers.client(leader), await brokers.client(leader)
        assert (await other.send()).code == 0
        ask = Frame(RequestCode.GET_MAX_OFFSET, 1, {"topic": "T", "queueId": "0"})
        count = 2_000
        before = leader.parts.router.requests
        greedy.write(encode_frame(ask) * count)
        await until(lambda: leader.parts.router.requests > before)
        assert (await other.send()).code == 0
        assert leader.parts.router.requests - before < count


async def test_half_sent_frames_of_many_clients_cost_the_oldest_their_connection(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        server = leader.parts.server
        server.partial_frames = PartialFrames(bytes_max=300_000)
        other = await brokers.client(leader)
        assert (await other.send()).code == 0
        greedy = [await brokers.client(leader) for _ in range(4)]
        for number, client in enumerate(greedy):
            client.write(struct.pack(">iI", 1 << 20, 10) + bytes(100_000))
            wanted = min(number + 1, 2)
            await until(lambda wanted=wanted: server.partial_frames.size >= wanted * 100_000)
        await until(lambda: server.partial_frames.closed == 2)
        assert server.partial_frames.size <= 300_000
        assert (await other.send()).code == 0
        assert not greedy[3].closed.done()


async def test_a_connection_that_is_cut_is_reset_and_one_that_is_closed_ends(
    make_brokers: MakeBrokers,
) -> None:
    """A Netty client fails what is in flight on a reset only; else it waits for 3 s."""
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        for cut in (True, False):
            reader, writer = await asyncio.open_connection(*leader.address.split(":"))
            ext = {"topic": "T", "queueId": "0"}
            writer.write(encode_frame(Frame(RequestCode.GET_MAX_OFFSET, 7, ext)))
            (size,) = struct.unpack(">i", await within(reader.readexactly(4), "an answer"))
            await reader.readexactly(size)
            host, port = writer.get_extra_info("sockname")
            open_now = leader.parts.server.connections
            (mine,) = [one for one in open_now if one.address == f"{host}:{port}"]
            mine.abort() if cut else mine.close()
            if cut:
                with pytest.raises(ConnectionResetError):
                    await within(reader.read(), "the reset")
            else:
                assert await within(reader.read(), "the end") == b""
            writer.close()


async def test_a_node_that_stops_resets_no_connection_with_answers_on_their_way(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has not read them, so they are in its own node's memory yet."""
    closed: list[ClientConnection] = []
    close = ClientConnection.close

    def noted(connection: ClientConnection) -> None:
        closed.append(connection)
        close(connection)

    monkeypatch.setattr(ClientConnection, "close", noted)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        server = leader.parts.server
        _, writer = await asyncio.open_connection(*leader.address.split(":"))
        host, port = writer.get_extra_info("sockname")
        await until(lambda: any(one.address == f"{host}:{port}" for one in server.connections))
        (mine,) = [one for one in server.connections if one.address == f"{host}:{port}"]
        mine.write(bytes(3_000_000))
        assert not mine.is_flushed
        await server.close()
        assert closed == [mine], "ended in order, not cut, as the others are"
        writer.close()


async def test_a_client_that_sends_no_more_still_gets_its_answers(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is ended in order then: a reset would drop what its machine has not yet."""
    lingers: list[bytes] = []
    lost = ClientConnection.eof_received

    def seen(connection: ClientConnection) -> None:
        lost(connection)
        assert connection._transport is not None
        line = connection._transport.get_extra_info("socket")
        lingers.append(line.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[:4])

    monkeypatch.setattr(ClientConnection, "eof_received", seen)
    async with make_brokers() as brokers:
        leader = await brokers.leader()
        reader, writer = await asyncio.open_connection(*leader.address.split(":"))
        ext = {"topic": "T", "queueId": "0"}
        writer.write(encode_frame(Frame(RequestCode.GET_MAX_OFFSET, 7, ext)))
        writer.write_eof()
        (size,) = struct.unpack(">i", await within(reader.readexactly(4), "an answer"))
        assert len(await within(reader.read(), "the rest")) == size
        assert lingers == [bytes(4)]
        writer.close()


@pytest.mark.parametrize("relays", [False, True])
async def test_a_node_that_stops_refuses_requests_and_resets_connections(
    make_brokers: MakeBrokers, relays: bool
) -> None:
    """Code 14 sends a stock client elsewhere at once; without an answer it would wait for one."""
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, node = await brokers.leader(), await brokers.follower()
        host, _, port = (relay_of(node) if relays else node.address).rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        get_max = encode_frame(Frame(RequestCode.GET_MAX_OFFSET, 8, {"topic": "T", "queueId": "0"}))
        for code in (0, ResponseCode.SERVICE_NOT_AVAILABLE):
            writer.write(java(opaque=7))
            assert (await answer(reader)).code == code
            end = end_of_queue(leader)
            await node.parts.server.take_no_more()
        writer.write(java(flag=2) + get_max)
        refused = await answer(reader)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert refused.opaque == 8, "a one-way send has no answer"
        assert refused.ext["leader"] == leader.address
        assert end_of_queue(leader) == end, "nothing of it was done"
        with pytest.raises(OSError, match="onnect"):
            await within(asyncio.open_connection(host, int(port)), "the refusal")
        await node.parts.server.close()
        with pytest.raises(ConnectionResetError):
            await within(reader.read(), "the reset")
        writer.close()


async def answer(reader: asyncio.StreamReader) -> Frame:
    size = await within(reader.readexactly(4), "an answer")
    return decode_frame(size + await reader.readexactly(int.from_bytes(size)))


async def test_a_node_that_comes_back_takes_no_connection_before_a_leader_is_known(
    make_brokers: MakeBrokers,
) -> None:
    """A stock client that still has it in its routes goes on to another node at once."""
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        for number in range(3):
            await brokers.stop_node(number)
        node = await brokers.start_node(0)
        for address in (node.address, relay_of(node)):
            with pytest.raises(OSError, match="onnect"):
                await within(asyncio.open_connection(*address.split(":")), "the refusal")
        await brokers.start_node(1)
        await brokers.leader()
        for address in (node.address, relay_of(node)):
            await until(functools.partial(listens, address), "its client port is open")


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as line:
        return line.connect_ex((host, int(port))) == 0
