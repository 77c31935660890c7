"""The name server over sockets, asked as clients ask."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from cluster.errors import ClusterError, QueueFull
from cluster.nameserver.kv_config import (
    KEYS_COUNT_MAX,
    ORDER_TOPIC_CONFIG,
    KvConfigUnreadable,
    LocalKvConfig,
)
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.protocol.headers import (
    KvConfigRequest,
    RegisterBrokerRequest,
    RouteRequest,
    UnregisterBrokerRequest,
    encode,
)
from cluster.protocol.route import decode_cluster_info, decode_route
from cluster.protocol.topics import (
    Registration,
    TopicConfig,
    decode_topic_list,
    encode_registration,
)

pytestmark = pytest.mark.virtual_time

BODY = encode_registration(Registration({"T": TopicConfig("T"), "U": TopicConfig("U")}, 1))


class Asker:
    """A client that sends one frame and reads one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = FrameDecoder()

    async def ask(self, code: int, header: object = None, body: bytes = b"", **more: int) -> Frame:
        ext = encode(header) if header is not None else {}
        frame = Frame(code, 9, ext, body, **more)  # type: ignore[arg-type]
        self.writer.write(encode_frame(frame))
        found: list[Frame] = []
        while not found:
            data = await self.reader.read(65536)
            assert data, "the server closed the connection"
            found = self.decoder.feed(data)
        return found[0]


@asynccontextmanager
async def asker(server: NameServer) -> AsyncIterator[Asker]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Asker(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def registration(address: str, broker_id: int, term: int, **more: object) -> RegisterBrokerRequest:
    return RegisterBrokerRequest("b", address, "c", broker_id, term=term, **more)  # type: ignore[arg-type]


async def test_routes_lists_and_overview() -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        crc = zlib.crc32(BODY)
        taken = await client.ask(103, registration("n0:1", 0, 4, body_crc32=crc), BODY)
        assert (taken.code, taken.ext["masterAddr"]) == (0, "n0:1")
        await client.ask(103, registration("n1:1", 2, 4), BODY)
        answer = await client.ask(105, RouteRequest("T"), version=479)
        assert answer.code == 0
        route = decode_route(answer.body)
        assert route.brokers[0].addresses == {0: "n0:1", 2: "n1:1"}
        assert route.brokers[0].term == -1, "stock clients are not told the term"
        older = await client.ask(105, RouteRequest("T"), version=63)
        assert b'{0:"n0:1",2:"n1:1"}' in older.body
        own = await client.ask(105, RouteRequest("T"), version=31001)
        assert decode_route(own.body).brokers[0].term == 4
        overview = decode_cluster_info((await client.ask(106, version=479)).body)
        assert overview["b"].addresses == {0: "n0:1", 2: "n1:1"}
        assert decode_topic_list((await client.ask(206)).body) == ["T", "U"]
        unknown = await client.ask(105, RouteRequest("X"))
        assert unknown.code == 17
        assert "X" in (unknown.remark or "")


async def test_a_stale_leader_is_refused_with_a_retryable_code() -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        await client.ask(103, registration("n1:1", 0, 5), BODY)
        refused = await client.ask(103, registration("n0:1", 0, 4), BODY)
        assert refused.code != 0
        assert "n1:1 leads it in term 5" in (refused.remark or "")
        gone = await client.ask(104, UnregisterBrokerRequest("b", "n1:1", "c", 0, term=5))
        assert gone.code == 0


async def test_an_empty_name_server_says_that_it_does_not_know() -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        for code in (105, 106, 206):
            assert (await client.ask(code, RouteRequest("T"))).code == 1
        await client.ask(103, registration("n0:1", 0, 1), BODY)
        assert (await client.ask(105, RouteRequest("X"))).code == 17
    async with NameServer(port=0, warm_up_seconds=0) as server, asker(server) as client:
        assert (await client.ask(105, RouteRequest("T"))).code == 17


@pytest.mark.parametrize(
    ("header", "body", "remark"),
    [
        (registration("n0:1", 0, 1, compressed=True), BODY, "uncompressed"),
        (registration("n0:1", 0, 1, body_crc32=1), BODY, "CRC"),
        (registration("", 0, 1), BODY, "address"),
        (registration("n0:1", 0, 1), b"{", "not JSON"),
    ],
)
async def test_bad_registrations(header: RegisterBrokerRequest, body: bytes, remark: str) -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        answer = await client.ask(103, header, body)
        assert answer.code != 0
        assert remark in (answer.remark or "")
        assert server.registry.is_empty


async def test_unknown_codes_and_missing_fields() -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        answer = await client.ask(999)
        assert answer.code == 3
        assert (answer.remark or "").startswith(" request type 999 not supported; ")
        assert (await client.ask(105)).code == 29


async def test_key_value_configuration(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    server = NameServer(port=0, kv_config=LocalKvConfig(path))
    async with server, asker(server) as client:
        missing = await client.ask(101, KvConfigRequest("ns", "k"))
        assert missing.code == 22
        assert (await client.ask(100, KvConfigRequest("ns", "k", "v"))).code == 0
        assert (await client.ask(100, KvConfigRequest("ns", "k"))).code == 29
        assert (await client.ask(101, KvConfigRequest("ns", "k"))).ext == {"value": "v"}
        await client.ask(100, KvConfigRequest(ORDER_TOPIC_CONFIG, "T", "b:4"))
        await client.ask(103, registration("n0:1", 0, 1), BODY)
        route = decode_route((await client.ask(105, RouteRequest("T"))).body)
        assert route.order_topic_conf == "b:4"
        listed = await client.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, KvConfigRequest("ns", "k"))
        assert orjson.loads(listed.body) == {"table": {"k": "v"}}
    again = LocalKvConfig(path)
    assert again.get("ns", "k") == "v"
    await again.delete("ns", "k")
    await again.delete("ns", "never there")
    assert LocalKvConfig(path).namespace("ns") == {}


async def test_key_value_limits_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{")
    with pytest.raises(KvConfigUnreadable, match="move it away"):
        LocalKvConfig(path)
    table = {str(number): "v" for number in range(KEYS_COUNT_MAX)}
    path.write_bytes(orjson.dumps({"configTable": {"ns": table}}))
    full = LocalKvConfig(path)
    with pytest.raises(QueueFull):
        await full.put("ns", "one more", "v")
    await full.put("ns", "1", "changed")
    assert full.get("ns", "one more") is None


async def test_a_full_disk_is_told(tmp_path: Path) -> None:
    kv_config = LocalKvConfig(tmp_path / "missing folder" / "kvConfig.json")
    async with NameServer(port=0, kv_config=kv_config) as server, asker(server) as client:
        answer = await client.ask(100, KvConfigRequest("ns", "k", "v"))
        assert answer.code == 1
        assert "could not be stored" in (answer.remark or "")
        assert kv_config.get("ns", "k") is None


async def test_a_malformed_frame_closes_its_own_connection_only() -> None:
    async with NameServer(port=0) as server, asker(server) as good, asker(server) as bad:
        await bad.ask(999)
        bad.writer.write(encode_frame(Frame(999, 3)) + struct.pack(">iI", 1 << 30, 0))
        rest = await bad.reader.read()
        assert FrameDecoder().feed(rest)[0].opaque == 3, "what came before is answered"
        assert (await good.ask(999)).code == 3


async def test_oneway_requests_and_stray_answers_are_not_answered() -> None:
    async with NameServer(port=0) as server, asker(server) as client:
        client.writer.write(encode_frame(Frame(999, 1, flag=2)))
        client.writer.write(encode_frame(Frame(0, 2, flag=1)))
        assert (await client.ask(999)).opaque == 9


async def test_an_idle_connection_is_closed() -> None:
    async with NameServer(port=0, idle_seconds_max=0.05) as server, asker(server) as client:
        await client.ask(999)
        async with asyncio.timeout(5):
            assert await client.reader.read() == b""


async def test_a_taken_address_is_an_error() -> None:
    async with NameServer(port=0) as server:
        other = NameServer(port=int(server.address.rpartition(":")[2]))
        with pytest.raises(OSError, match="in use"):
            await other.start()
        await other.close()


def test_errors_have_codes() -> None:
    assert issubclass(KvConfigUnreadable, ClusterError)
