"""Brokers in this process and a bare client that speaks frames; what the broker tests stand on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.broker.node import BrokerNode
from cluster.core.rate import Rate
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from cluster.protocol.heartbeat import ConsumerData, HeartbeatData, Subscription, encode_heartbeat
from commitlog.records.message import decode_message
from dledger.config import RaftConfig
from tests.virtual_loop import LoopClock
from tests.waiting import eventually, limit

PEER_PORT = 20911
CLIENT_PORT = 10911
SMALL: Mapping[str, Any] = {"index_slot_count": 1000, "index_entry_count": 4000}


async def until(condition: Callable[[], Any], what: str = "what the test waits for") -> Any:
    """Wait for something another part does, looked at every few milliseconds."""
    return await eventually(condition, what)


def without_refusals(parts: Any) -> None:
    """Keep requests that are refused out of the audit log: test_audit.py is about those."""
    parts.control.audit._refusals = Rate(0, 0)


@contextlib.contextmanager
def nothing_is_appended(leader: BrokerNode) -> Iterator[None]:
    """What is proposed within waits until the end: all of it is on its way at once."""
    appender, driver = leader.parts.appender, leader._driver
    assert driver is not None
    flush = appender.flush
    appender.flush = lambda: None  # type: ignore[method-assign]
    driver.settle_turn = lambda: None  # the other one who asks for it, when peers are heard
    try:
        yield
    finally:
        appender.flush = driver.settle_turn = flush  # type: ignore[method-assign]
        flush()


async def handled(*clients: RawClient) -> None:
    """The nodes have done with what these clients had sent, but for what they wait for."""
    for client in clients:
        for _ in range(20):
            assert (await client.ask(RequestCode.GET_BROKER_CONFIG)).code == 0


@contextlib.contextmanager
def heard_mistakes(found: list[str]) -> Iterator[None]:
    """Whatever is logged with a traceback meanwhile, or comes to the loop uncaught."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            # Of asyncio's own, this loop's come to `heard`; others are of tests that are over.
            if record.exc_info and not record.name.startswith(("cluster.client", "asyncio")):
                found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")

    def heard(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        future = context.get("future")
        if future is None or isinstance(future, asyncio.Task):  # others are the test's own
            found.append(str(context))

    handler, loop = Handler(), asyncio.get_running_loop()
    loop.set_exception_handler(heard)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        loop.set_exception_handler(None)


class Brokers:
    """A group of brokers; `nodes[i]` is None while node i is down.

    Their `clock` goes with the event loop, so that a busy machine elects nobody.
    `mistakes`: of all nodes, and of what the loop called; a test without any leaves it empty.
    """

    clock: LoopClock

    def __init__(
        self,
        root: Path,
        hosts: list[str],
        settings: Mapping[str, Any],
        raft: Mapping[str, Any] | None = None,
    ) -> None:
        self.root, self.hosts, self.settings = root, hosts, settings
        self._raft = dict(raft or {})
        self.nodes: list[BrokerNode | None] = [None] * len(hosts)
        self._clients: list[RawClient] = []
        self.mistakes: list[str] = []
        for number in range(len(hosts)):
            BrokerNode.format(self.raft(number))

    def raft(self, number: int) -> RaftConfig:
        return RaftConfig(
            node_id=f"n{number}",
            peers={f"n{i}": (host, PEER_PORT) for i, host in enumerate(self.hosts)},
            data_dir=self.root / f"n{number}" / f"dledger-n{number}",
            cluster_id="test",
            **{
                "data_file_size": 16 << 20,
                "index_file_size": 1 << 20,
                "disk_stall_ms": int(limit(20_000)),  # a busy disk is not a sick one
                **self._raft,
            },
            heartbeat_ms=50 if len(self.hosts) > 1 else 10,
            election_timeout_min_ms=200 if len(self.hosts) > 1 else 20,
            election_timeout_max_ms=400 if len(self.hosts) > 1 else 40,
        )

    def config(self, number: int) -> BrokerConfig:
        peers = {
            f"n{i}": f"{host}:{CLIENT_PORT}" for i, host in enumerate(self.hosts) if i != number
        }
        return BrokerConfig(
            node_id=f"n{number}",
            root=self.root / f"n{number}",
            listen_host=self.hosts[number],
            listen_port=CLIENT_PORT,
            peers=peers,
            **{**SMALL, **self.settings},
        )

    async def start_node(self, number: int) -> BrokerNode:
        node = BrokerNode(self.config(number), self.raft(number), clock=self.clock)
        await node.start()
        self.nodes[number] = node
        return node

    async def stop_node(self, number: int) -> None:
        node, self.nodes[number] = self.nodes[number], None
        if node is not None:
            await node.close()

    async def start(self) -> None:
        self.clock = LoopClock()
        for number in range(len(self.hosts)):
            await self.start_node(number)
        await self.leader()

    async def close(self) -> None:
        for client in self._clients:
            client.close()
        for number in range(len(self.hosts)):
            await self.stop_node(number)

    def damage(self, number: int, position: int) -> None:
        """Flip one bit of the log of a node that is down."""
        (data,) = (self.root / f"n{number}" / f"dledger-n{number}" / "data").glob("0*")
        with data.open("r+b") as file:
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 1]))

    async def next_millisecond(self) -> None:
        """What is stamped from now on has a later stamp than everything before."""
        before = self.clock.time_ms()
        await until(lambda: self.clock.time_ms() > before, "the next millisecond")

    def running(self) -> list[BrokerNode]:
        return [node for node in self.nodes if node is not None]

    def find_leader(self) -> BrokerNode | None:
        for node in self.running():
            if node.parts.leadership.leads:
                return node
        return None

    async def leader(self) -> BrokerNode:
        """The leader, once every running node knows it."""

        def agreed() -> BrokerNode | None:
            leader = self.find_leader()
            if leader is None:
                return None
            name = leader.config.node_id
            known = all(n.parts.leadership.leader == name for n in self.running())
            return leader if known else None

        found = await until(agreed, "a leader that every node knows")
        assert isinstance(found, BrokerNode)
        return found

    async def follower(self) -> BrokerNode:
        leader = await self.leader()
        return next(node for node in self.running() if node is not leader)

    async def client(self, node: BrokerNode, **how: Any) -> RawClient:
        """Of a node that runs: one that came back opens its port just after it knows a leader."""

        async def connected() -> RawClient | None:
            try:
                return await self.client_of(node.address, **how)
            except ConnectionRefusedError:
                return None

        found = await eventually(connected, f"an open client port of {node.config.node_id}")
        assert found is not None
        return found

    async def client_of(self, address: str, **how: Any) -> RawClient:
        client = await RawClient.connect(address, **how)
        self._clients.append(client)
        return client


class RawClient:
    """Sends frames and matches answers; `notices` collects the broker's own requests."""

    def __init__(self, version: int, kind: int) -> None:
        self._version, self._kind = version, kind
        self._decoder = FrameDecoder()
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._opaque = 0
        self.notices: list[Frame] = []
        self.client_id, self.language = "client@1", "JAVA"
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def connect(cls, address: str, *, version: int = 479, kind: int = 0) -> RawClient:
        client = cls(version, kind)
        host, _, port = address.rpartition(":")
        client._reader, client._writer = await asyncio.open_connection(host, int(port))
        client._task = asyncio.get_running_loop().create_task(client._read())
        return client

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                for frame in self._decoder.feed(data):
                    if not frame.is_response:
                        self.notices.append(frame)
                    elif frame.opaque in self._waiting:
                        self._waiting.pop(frame.opaque).set_result(frame)
        except ConnectionError:
            pass
        finally:
            self._writer.close()
            self.closed.set_result(None)
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("closed"))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def ask(
        self,
        code: int,
        ext: Mapping[str, Any] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
    ) -> asyncio.Future[Frame]:
        """Send a request; the future is its answer."""
        self._opaque += 1
        texts = {key: str(value) for key, value in (ext or {}).items()}
        frame = Frame(
            int(code),
            self._opaque,
            texts,
            body,
            flag,
            None,
            self.language,
            self._version,
            self._kind,
        )
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        if not flag & 2:
            self._waiting[self._opaque] = future
        self._writer.write(encode_frame(frame))
        return future

    def waits_for(self, opaque: int) -> asyncio.Future[Frame]:
        """The answer to a request that came another way."""
        self._waiting[opaque] = asyncio.get_running_loop().create_future()
        return self._waiting[opaque]

    def close(self) -> None:
        self._writer.close()
        self._task.cancel()

    # -- requests ----------------------------------------------------------------------------------

    def send(
        self,
        topic: str = "T",
        body: bytes = b"hello",
        queue: int = 0,
        properties: str = "",
        code: int = RequestCode.SEND_MESSAGE_V2,
        **more: Any,
    ) -> asyncio.Future[Frame]:
        ext = {
            "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0,
            "g": 1700000000123, "h": 0, "i": properties, "j": 0, "k": "false",
            "m": "true" if code == RequestCode.SEND_BATCH_MESSAGE else "false", "n": "broker-a",
        }  # fmt: skip
        return self.ask(code, {**ext, **more}, body)

    def numbered(self, producer: str, number: int, body: bytes = b"x", **more: Any) -> Any:
        """A send with __PID and __SEQ."""
        properties = f"__PID\x01{producer}\x02__SEQ\x01{number}\x02"
        return self.send(body=body, properties=properties, **more)

    def pull(
        self,
        topic: str = "T",
        queue: int = 0,
        offset: int = 0,
        *,
        group: str = "CG",
        suspend_ms: int = 0,
        count: int = 32,
        subscription: str | None = "*",
        **more: Any,
    ) -> asyncio.Future[Frame]:
        flag = (4 if subscription is not None else 0) | (2 if suspend_ms else 0)
        ext: dict[str, Any] = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue,
            "queueOffset": offset,
            "maxMsgNums": count,
            "sysFlag": flag,
            "commitOffset": 0,
            "suspendTimeoutMillis": suspend_ms,
            "subVersion": 0,
        }
        if subscription is not None:
            ext["subscription"] = subscription
        return self.ask(RequestCode.PULL_MESSAGE, {**ext, **more})

    def heartbeat(
        self, group: str = "CG", topic: str = "T", expression: str = "*", version: int = 1
    ) -> asyncio.Future[Frame]:
        consumer = ConsumerData(group, (Subscription.of_tags(topic, expression, version),))
        data = HeartbeatData(self.client_id, ("PG",), (consumer,))
        return self.ask(RequestCode.HEART_BEAT, body=encode_heartbeat(data))


def bodies(data: bytes) -> list[bytes]:
    """Bodies of records back to back."""
    found, at = [], 0
    while at < len(data):
        message = decode_message(data, at)
        found.append(message.body)
        at += message.record_size
    return found


OWN = {"version": VERSION_OWN, "kind": 1}
