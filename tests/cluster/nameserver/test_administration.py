"""What mqadmin asks of a name server: 205/327, 216, 224, 304, 318/319, 322."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson

from cluster.nameserver.kv_config import LocalKvConfig
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.protocol.headers import RegisterBrokerRequest, encode
from cluster.protocol.route import decode_route
from cluster.protocol.topics import (
    Registration,
    TopicConfig,
    decode_topic_list,
    encode_registration,
)

from .test_relays import register
from .test_server import asker

TOPICS = {"T": TopicConfig("T"), "U": TopicConfig("U")}


class Admin:
    """Fields as texts, one frame at a time."""

    def __init__(self, asker_: object) -> None:
        self.reader, self.writer = asker_.reader, asker_.writer  # type: ignore[attr-defined]

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> Frame:
        return await self.say(Frame(code, 1, ext or {}, body))

    async def say(self, frame: Frame) -> Frame:
        decoder = FrameDecoder()
        self.writer.write(encode_frame(frame))
        found: list[Frame] = []
        while not found:
            found = decoder.feed(await self.reader.read(65536))
        return found[0]

    async def register(self, name: str, cluster: str = "C", counter: int = 1) -> None:
        request = RegisterBrokerRequest(name, f"10.0.0.1:{len(name)}", cluster, 0, term=1)
        body = encode_registration(Registration(TOPICS, counter, 5))
        assert (await self.ask(Code.REGISTER_BROKER, encode(request), body)).code == 0

    async def perm(self, name: str) -> int:
        route = decode_route((await self.ask(105, {"topic": "T"})).body)
        (found,) = [queue.perm for queue in route.queues if queue.broker_name == name]
        return found


async def test_write_permission_is_wiped_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    async with (
        NameServer("127.0.0.1", 0, kv_config=LocalKvConfig(path)) as server,
        asker(server) as connection,
    ):
        admin = Admin(connection)
        await admin.register("a")
        await admin.register("bb")
        wiped = await admin.ask(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
        assert (wiped.code, wiped.ext) == (0, {"wipeTopicCount": "2"})
        assert [await admin.perm("a"), await admin.perm("bb")] == [4, 6]
        await admin.register("a", counter=2)
        assert await admin.perm("a") == 4, "a registration does not take it back"
        unknown = await admin.ask(Code.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "x"})
        assert unknown.code == 22
    async with (
        NameServer("127.0.0.1", 0, kv_config=LocalKvConfig(path)) as server,
        asker(server) as connection,
    ):
        admin = Admin(connection)
        await admin.register("a")
        assert await admin.perm("a") == 4, "nor does a restart"
        added = await admin.ask(Code.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
        assert added.ext == {"addTopicCount": "2"}
        assert await admin.perm("a") == 6


async def test_topics_of_clusters() -> None:
    async with NameServer("127.0.0.1", 0) as server, asker(server) as connection:
        admin = Admin(connection)
        await admin.register("a")
        await admin.register("bb", cluster="D")
        listed = await admin.ask(Code.GET_TOPICS_BY_CLUSTER, {"cluster": "D"})
        assert decode_topic_list(listed.body) == ["T", "U"]
        none = await admin.ask(Code.GET_TOPICS_BY_CLUSTER, {"cluster": "x"})
        assert decode_topic_list(none.body) == []
        system = orjson.loads((await admin.ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS)).body)
        assert system == {"brokerAddr": "10.0.0.1:1", "topicList": ["C", "D", "a", "bb"]}
        gone = {"topic": "T", "clusterName": "D"}
        assert (await admin.ask(Code.DELETE_TOPIC_IN_NAMESRV, gone)).code == 0
        route = decode_route((await admin.ask(105, {"topic": "T"})).body)
        assert [queue.broker_name for queue in route.queues] == ["a"]
        assert (await admin.ask(216, {"topic": "T"})).code == 0
        assert (await admin.ask(105, {"topic": "T"})).code == 17


async def test_settings_and_data_versions() -> None:
    async with NameServer("127.0.0.1", 0) as server, asker(server) as connection:
        admin = Admin(connection)
        shown = (await admin.ask(Code.GET_NAMESRV_CONFIG)).body.decode()
        assert "bindAddress=127.0.0.1\n" in shown
        assert (await admin.ask(Code.UPDATE_NAMESRV_CONFIG, body=b"a=b\n")).code == 0
        for key in ("relays", "notifyRoutes"):
            for value in ("false", "true"):
                assert (await admin.ask(318, body=f"{key}={value}".encode())).code == 0
                shown = (await admin.ask(Code.GET_NAMESRV_CONFIG)).body.decode()
                assert f"{key}={value}\n" in shown
        assert (await admin.ask(318, body=b"relays=perhaps")).code == 29
        assert (await admin.ask(318, body=b"bindAddress=1.2.3.4")).code == 29
        assert (await admin.ask(318, body=b"nonsense")).code == 29
        assert (await admin.ask(318, body=b"\xff\xfe")).code == 29
        await admin.register("a", counter=3)
        ext = {"brokerName": "a", "brokerAddr": "10.0.0.1:1", "clusterName": "C", "brokerId": "0"}
        for counter, changed in ((3, "false"), (4, "true")):
            body = orjson.dumps({"counter": counter, "timestamp": 5, "stateVersion": 0})
            answer = await admin.ask(Code.QUERY_DATA_VERSION, ext, body)
            assert answer.ext == {"changed": changed}
            assert orjson.loads(answer.body)["counter"] == 3
        assert (await admin.ask(322, ext, b"[]")).code == 29


async def test_relays_are_turned_off_and_on_while_it_runs() -> None:
    async with NameServer("127.0.0.1", 0) as server, asker(server) as connection:
        admin = Admin(connection)
        register(server.registry, "n0", 0)
        for value, names in (("false", ["b"]), ("true", ["b", "~1@b"])):
            assert (await admin.ask(318, body=f"relays={value}".encode())).code == 0
            route = decode_route((await admin.ask(105, {"topic": "T"})).body)
            assert [broker.broker_name for broker in route.brokers] == names


async def test_notification_routes_are_turned_on_and_off_for_java_clients() -> None:
    async with NameServer("127.0.0.1", 0) as server, asker(server) as connection:
        admin = Admin(connection)
        now = asyncio.get_running_loop().time()
        register(server.registry, "n0", 0, living="n1", now=now, notified_groups="")
        register(server.registry, "n1", 2, now=now)
        for value, names in (("true", {"b", "~2@b"}), ("false", {"b"})):
            assert (await admin.ask(318, body=f"notifyRoutes={value}".encode())).code == 0
            for version, seen in ((479, names), (121, {"b"})):
                frame = Frame(105, 1, {"topic": "%RETRY%g"}, language="JAVA", version=version)
                answer = (await admin.say(frame)).body
                assert {broker.broker_name for broker in decode_route(answer).brokers} == seen


async def test_missing_fields_are_named() -> None:
    async with NameServer("127.0.0.1", 0) as server, asker(server) as connection:
        admin = Admin(connection)
        for code in (100, 101, 102, 103, 104, 105, 205, 216, 219, 224, 322, 327):
            answer = await admin.ask(code)
            assert (answer.code, "lacks" in (answer.remark or "")) == (29, True), code
