"""A group of stub brokers for the client's tests: one shared list of messages, any node may lead.

They speak the real protocol through `cluster.protocol`, number and de-duplicate as rule R8 says,
and can be told to fail in the ways that a real group fails.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NotFound,
    RequestNotSupported,
    SequenceGap,
    ServiceNotAvailable,
    TopicNotFound,
)
from cluster.nameserver.server import NameServer
from cluster.protocol.batch import iterate
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame, encode_frame, refusal, response
from cluster.protocol.headers import (
    ConsumerListRequest,
    CreateTopicRequest,
    OffsetResponse,
    PullRequest,
    PullResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    RegisterBrokerRequest,
    TopicRequest,
    UnregisterClientRequest,
    UpdateConsumerOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.heartbeat import decode_heartbeat, encode_consumer_list
from cluster.protocol.json_body import dump
from cluster.protocol.offset_id import store_host_hex
from cluster.protocol.send import SendRequest
from cluster.protocol.send_own import RequestDecoder
from cluster.protocol.send_response import SendResponder, refuse_send
from cluster.protocol.topics import Registration, TopicConfig
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.properties import find_property

HOST = struct.pack(">4si", b"\x7f\x00\x00\x01", 10911)


@dataclass
class Stored:
    """One message: where it is, and the record that pulls are answered with."""

    queue: tuple[str, int]
    body: bytes
    properties: bytes
    record: bytes
    index: int


@dataclass
class StubGroup:
    """Shared state of the nodes of one broker name."""

    nameserver: NameServer
    name: str = "broker-a"
    queues: int = 2
    log: list[Stored] = field(default_factory=list)
    by_queue: dict[tuple[str, int], list[Stored]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    expected: dict[tuple[bytes, str, int], list[int]] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    members: dict[str, dict[str, StubConnection]] = field(default_factory=dict)
    nodes: list[StubNode] = field(default_factory=list)
    nameservers: str = ""  # what its brokers say they register with
    leader: StubNode | None = None
    term: int = 0
    version: int = 0
    refuse: Callable[[SendRequest], ClusterError | None] = lambda request: None
    # Called after storing: an error is answered although it is stored, False ends the connection.
    after: Callable[[SendRequest], ClusterError | bool | None] = lambda request: None
    # Seconds that each connection's next answers take; they stay in order.
    delay: Callable[[], float] = lambda: 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, count: int) -> None:
        self.topics["TBW102"] = 8
        for _ in range(count):
            node = StubNode(self)
            await node.start()
            self.nodes.append(node)
        self.elect(self.nodes[0])

    def elect(self, node: StubNode | None, *, register: bool = True) -> None:
        """Make a node lead (None: nobody does); `register` tells the name server at once."""
        self.leader = node
        if node is not None:
            self.term += 1
        if register:
            self.register()

    def create(self, topic: str, queues: int | None = None) -> None:
        self.topics[topic] = queues or self.queues
        self.register()

    def register(self) -> None:
        """Tell the name server what every living node would tell."""
        loop = asyncio.get_running_loop()
        self.version += 1
        table = {name: TopicConfig(name, count, count) for name, count in self.topics.items()}
        registration = Registration(table, self.version)
        for number, node in enumerate(self.nodes):
            if node.is_dead:
                continue
            is_leader = node is self.leader
            request = RegisterBrokerRequest(
                self.name,
                node.address,
                "c",
                0 if is_leader else number + 1,
                term=self.term if is_leader else -1,
            )
            self.nameserver.registry.register(request, registration, loop.time())

    async def stored(self, count: int) -> None:
        """Wait until so many messages are stored."""
        while len(self.log) < count:
            await self.changed.wait()

    def store(self, request: SendRequest) -> tuple[int, int]:
        """Append or recognise; (first queue offset, first index). Raises as a real leader."""
        template = request.template
        if template.topic not in self.topics:
            if template.default_topic not in self.topics:
                raise TopicNotFound(f"topic {template.topic} does not exist")
            self.create(template.topic, template.default_topic_queue_count)
        queue = (template.topic, template.queue_id)
        items = [(request.body, request.properties)]
        if template.is_batch:
            items = [(item.body, item.properties) for item in iterate(request.body)]
        places = [self._store_one(queue, body, properties) for body, properties in items]
        self.wake()
        return places[0]

    def wake(self) -> None:
        """Let everyone look again who waits for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def _store_one(self, queue: tuple[str, int], body: bytes, properties: bytes) -> tuple[int, int]:
        producer = find_property(properties, b"__PID")
        row = self.by_queue.setdefault(queue, [])
        if producer is not None:
            sequence = int(find_property(properties, b"__SEQ") or b"-1")
            seen = self.expected.setdefault((producer, *queue), [])
            if sequence < len(seen):
                offset = seen[sequence]
                return offset, row[offset].index
            if sequence > len(seen):
                raise SequenceGap(f"{sequence} was sent and {len(seen)} comes next; send it first")
            seen.append(len(row))
        record = encode_record(
            topic_field(queue[0]), properties, body, queue[1], 0, 0, 1, HOST, HOST,
            queue_offset=len(row), physical_offset=len(self.log) * 1000, store_timestamp_ms=2,
        )  # fmt: skip
        stored = Stored(queue, body, properties, bytes(record), len(self.log))
        self.log.append(stored)
        row.append(stored)
        return len(row) - 1, stored.index

    def notify(self, group: str) -> None:
        frame = Frame(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 1, {"consumerGroup": group}, flag=2)
        for connection in self.members.get(group, {}).values():
            connection.transport.write(encode_frame(frame))


class StubNode:
    """One broker process."""

    def __init__(self, group: StubGroup) -> None:
        self.group = group
        self.is_dead = self.is_frozen = False
        self.connections: set[StubConnection] = set()
        self.server: asyncio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: StubConnection(self), "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        self.responder = SendResponder(store_host_hex("127.0.0.1", self.port))
        self.is_dead = False

    def kill(self) -> None:
        """As SIGKILL: the port refuses, connections end."""
        self.is_dead = True
        assert self.server is not None
        self.server.close()
        for connection in list(self.connections):
            connection.transport.abort()
        if self.group.leader is self:
            self.group.leader = None


class StubConnection(asyncio.Protocol):
    """One client's connection."""

    transport: asyncio.Transport

    def __init__(self, node: StubNode) -> None:
        self.node, self.group = node, node.group
        self.decoder = RequestDecoder()
        self.tasks: set[asyncio.Task[None]] = set()
        self.free_at = 0.0
        self.answers: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.node.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.node.connections.discard(self)
        for task in self.tasks:
            task.cancel()
        for members in self.group.members.values():
            for client_id in [key for key, value in members.items() if value is self]:
                del members[client_id]

    def data_received(self, data: bytes) -> None:
        if self.node.is_frozen:
            return
        out = []
        for item in self.decoder.feed(data):
            if isinstance(item, SendRequest):
                out.append(self.send(item))
            elif not item.is_response:
                answer = self.answer(item)
                if answer is not None and not item.is_oneway:
                    out.append(encode_frame(answer))
        self.write_later(b"".join(out))

    def write_later(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.free_at = max(self.free_at, loop.time()) + self.group.delay()
        # In order, also when several are due at the same time.
        self.answers.append(data)
        loop.call_at(self.free_at, lambda: self.transport.write(self.answers.popleft()))

    def send(self, request: SendRequest) -> bytes:
        try:
            if self.group.leader is not self.node:
                raise ServiceNotAvailable("the group has no leader here")
            error = self.group.refuse(request)
            if error is not None:
                raise error
            offset, index = self.group.store(request)
            fate = self.group.after(request)
            if fate is False:
                self.transport.abort()
                return b""
            if isinstance(fate, ClusterError):
                raise fate
        except ClusterError as error:
            return refuse_send(request, error)
        return self.node.responder.stored(
            request,
            queue_id=request.template.queue_id,
            queue_offset=offset,
            position=index * 1000,
            index=index,
            term=self.group.term,
        )

    def answer(self, frame: Frame) -> Frame | None:
        try:
            if self.group.leader is not self.node and frame.code != RequestCode.HEART_BEAT:
                raise ServiceNotAvailable("the group has no leader here")
            handler = HANDLERS.get(RequestCode(frame.code))
            if handler is None:
                raise RequestNotSupported(f"request type {frame.code} not supported")
            return handler(self, frame)
        except ClusterError as error:
            return refusal(frame, error)

    def pull(self, frame: Frame) -> Frame | None:
        request = decode(PullRequest, frame.ext)
        answer = self.pull_now(frame, request)
        if answer.code == 19 and request.sys_flag & 2:
            task = asyncio.ensure_future(self.pull_later(frame, request))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return None
        return answer

    async def pull_later(self, frame: Frame, request: PullRequest) -> None:
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            self.group.wake()

        seconds = request.suspend_timeout_millis / 1000
        timer = asyncio.get_running_loop().call_later(seconds, end)
        answer = self.pull_now(frame, request)
        while answer.code == 19 and not is_over:
            await self.group.changed.wait()
            answer = self.pull_now(frame, request)
        timer.cancel()
        if not self.node.is_frozen:
            self.transport.write(encode_frame(answer))

    def pull_now(self, frame: Frame, request: PullRequest) -> Frame:
        row = self.group.by_queue.get((request.topic, request.queue_id), [])
        offset = request.queue_offset
        found = row[offset : offset + request.max_msg_nums]
        end = offset + len(found)
        code = 0 if found else 19 if offset == len(row) else 21
        if code == 21:
            end = len(row)
        header = encode(PullResponse(end, 0, len(row)))
        return response(frame, code, header, b"".join(item.record for item in found))

    def heartbeat(self, frame: Frame) -> Frame:
        heartbeat = decode_heartbeat(frame.body)
        for consumer in heartbeat.consumers:
            members = self.group.members.setdefault(consumer.group, {})
            is_new = heartbeat.client_id not in members
            if is_new or self.node is self.group.leader:
                members[heartbeat.client_id] = self
            if is_new:
                self.group.notify(consumer.group)
        return response(frame)

    def unregister(self, frame: Frame) -> Frame:
        request = decode(UnregisterClientRequest, frame.ext)
        if request.consumer_group:
            self.group.members.get(request.consumer_group, {}).pop(request.client_id, None)
            self.group.notify(request.consumer_group)
        return response(frame)

    def config(self, frame: Frame) -> Frame:
        lines = f"brokerId=0\nnamesrvAddr={self.group.nameservers}\n"
        return response(frame, 0, EMPTY, lines.encode())

    def member_list(self, frame: Frame) -> Frame:
        group = decode(ConsumerListRequest, frame.ext).consumer_group
        ids = sorted(self.group.members.get(group, {}))
        if not ids:
            raise InvalidRequest(f"no consumer for this group: {group}")
        return response(frame, 0, EMPTY, encode_consumer_list(ids))

    def query_offset(self, frame: Frame) -> Frame:
        request = decode(QueryConsumerOffsetRequest, frame.ext)
        key = (request.consumer_group, request.topic, request.queue_id)
        if key not in self.group.offsets:
            raise NotFound("no offset")
        return response(frame, 0, encode(OffsetResponse(self.group.offsets[key])))

    def update_offset(self, frame: Frame) -> Frame:
        request = decode(UpdateConsumerOffsetRequest, frame.ext)
        key = (request.consumer_group, request.topic, request.queue_id)
        self.group.offsets[key] = request.commit_offset
        return response(frame)

    def bound(self, frame: Frame) -> Frame:
        request = decode(QueueRequest, frame.ext)
        row = self.group.by_queue.get((request.topic, request.queue_id), [])
        offset = len(row) if frame.code == RequestCode.GET_MAX_OFFSET else 0
        return response(frame, 0, encode(OffsetResponse(offset)))

    def create_topic(self, frame: Frame) -> Frame:
        request = decode(CreateTopicRequest, frame.ext)
        self.group.create(request.topic, request.write_queue_nums)
        return response(frame)

    def topic_config(self, frame: Frame) -> Frame:
        topic = decode(TopicRequest, frame.ext).topic
        number = self.group.topics.get(topic)
        if number is None:
            return refusal(frame, TopicNotFound(f"no topic {topic}"))
        row = {"topicName": topic, "readQueueNums": number, "writeQueueNums": number, "perm": 6}
        return response(frame, 0, body=dump(row))


HANDLERS: dict[RequestCode, Callable[[StubConnection, Frame], Frame | None]] = {
    RequestCode.PULL_MESSAGE: StubConnection.pull,
    RequestCode.HEART_BEAT: StubConnection.heartbeat,
    RequestCode.GET_BROKER_CONFIG: StubConnection.config,
    RequestCode.UNREGISTER_CLIENT: StubConnection.unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: StubConnection.member_list,
    RequestCode.QUERY_CONSUMER_OFFSET: StubConnection.query_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: StubConnection.update_offset,
    RequestCode.GET_MAX_OFFSET: StubConnection.bound,
    RequestCode.GET_MIN_OFFSET: StubConnection.bound,
    RequestCode.UPDATE_AND_CREATE_TOPIC: StubConnection.create_topic,
    RequestCode.GET_TOPIC_CONFIG: StubConnection.topic_config,
}
