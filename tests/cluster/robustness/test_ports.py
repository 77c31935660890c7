"""Five thousand mutated inputs on each port of three real nodes, without a right and with rights.

    client port, name server     frames, unsigned; signed by an account that has no right
    peer port                    hellos and messages without the secret; behind a proven hello
    admin HTTP                   requests (with tokens: console/test_harmed_requests.py)

Nobody dies, no mistake of ours is in a log, and nothing is changed: terms, logs, tables, routes.
Then the same with every right, where changes are allowed and all else is not. The process that
holds the secret of the peers is trusted (SECURITY.md), so what it sends there are stale messages
and harmed ones, not lies.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from cluster.core.access.signature import ACCESS_KEY, SIGNATURE, sign
from cluster.errors import ProtocolError
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER
from cluster.protocol.codes import VERSION
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame, FrameDecoder, decode_frame, encode_frame
from cluster.protocol.headers import RegisterBrokerRequest
from cluster.protocol.headers import encode as header
from cluster.protocol.topics import Registration, encode_registration
from dledger.core.messages import (
    AppendEntries,
    Heartbeat,
    Message,
    ReadIndexRequest,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from dledger.core.types import EntryId, Index, NodeId, Term, TermRun
from dledger.membership.handshake import Dialler, LinkKind, Member
from dledger.wire.frames import Frame as PeerFrame
from dledger.wire.frames import FrameDecoder as PeerDecoder
from dledger.wire.messages import encode
from tests.waiting import RAFT_TIMINGS, limit, within

from ..harm import harmed, web_requests
from .fuzzing import FrameFuzzer
from .live import pour

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

COUNT = 5_000
AT_ONCE = 6
ACCOUNTS = """
accounts:
- accessKey: without-right
  secretKey: of-without-right
- accessKey: with-all
  secretKey: of-with-all
  admin: true
"""
SETTINGS = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
}


class Guarded(NamedTuple):
    """Three nodes with accounts and tokens, and the addresses of one that leads."""

    cluster: LocalCluster
    client: str
    peer: str
    admin: str
    node: str

    @property
    def nameserver(self) -> str:
        return self.cluster.nameserver

    def mistakes(self) -> list[str]:
        """What logs say of exceptions."""
        names = ["ns", *(member.name for member in self.cluster.profile.of_kind(BROKER))]
        logs = [self.cluster.folder(name) / "log.txt" for name in names]
        return [
            line for log in logs for line in log.read_text().splitlines() if "Traceback" in line
        ]

    def ask(self, address: str, code: int, **ext: str) -> Frame:
        """As the account that may do all."""
        return asyncio.run(_ask(address, _signed(Frame(code, 1, ext, version=VERSION), "with-all")))

    def state(self) -> Any:
        """All that somebody without a right must not change."""
        asked = [Code.GET_ALL_TOPIC_CONFIG, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG]
        asked += [Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE]
        tables = [self.ask(self.client, code).body for code in asked]
        known = [self.ask(self.nameserver, code) for code in (106, 206)]
        kept = self.ask(self.nameserver, 219, namespace="N").body
        statuses = self.cluster.statuses().values()
        assert all(status is not None for status in statuses), "a node does not answer"
        # Refusals are kept in the audit log, 30 at once (docs/audit.md): no other entry may come.
        audited = json.loads(self.ask(self.client, Code.LIST_AUDIT, maxNum="200").body)["rows"]
        pointers = [
            (status["term"], status["role"], status["last_index"] - len(audited))
            for status in statuses
            if status is not None
        ]
        return tables, [answer.body for answer in known], kept, pointers


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("ports")
    accounts = folder / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    settings = {"broker.acl_file": str(accounts), **SETTINGS}
    members = plan.plan(3, plan.scratch_hosts(3))
    cluster = LocalCluster.create(folder / "c", members, settings, tied=True)
    cluster.up()
    try:
        leader = cluster.leader()
        assert leader is not None
        member = cluster.profile.member(leader)
        found = Guarded(cluster, member.client, member.peer, member.admin, leader)
        topic = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "4", "perm": "6"}
        topic |= {"writeQueueNums": "4", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"}
        assert found.ask(found.client, Code.UPDATE_AND_CREATE_TOPIC, **topic).code == 0
        pair = {"namespace": "N", "key": "k", "value": "v"}
        assert found.ask(found.nameserver, Code.PUT_KV_CONFIG, **pair).code == 0
        yield found
    finally:
        cluster.down()


def _signed(frame: Frame, account: str) -> Frame:
    ext = {name: text for name, text in frame.ext.items() if name not in (SIGNATURE, "0seal")}
    ext[ACCESS_KEY] = account
    return frame._replace(ext={**ext, SIGNATURE: sign(ext, frame.body, f"of-{account}", VERSION)})


async def _ask(address: str, frame: Frame) -> Frame:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    decoder = FrameDecoder()
    try:
        writer.write(encode_frame(frame))
        while True:
            data = await within(reader.read(1 << 16), "an answer", limit(10))
            assert data, "closed without an answer"
            for answer in decoder.feed(data):
                return answer
    finally:
        writer.close()


_TOPIC = {"defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
CHANGES = [
    Frame(Code.UPDATE_AND_CREATE_TOPIC, 1, {"topic": "made", "topicSysFlag": "0", **_TOPIC}),
    Frame(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 1, {}, b'{"groupName":"made"}'),
    Frame(Code.DELETE_TOPIC_IN_BROKER, 1, {"topic": "T"}),
    Frame(Code.PUT_KV_CONFIG, 1, {"namespace": "N", "key": "k", "value": "new"}),
    Frame(Code.DELETE_KV_CONFIG, 1, {"namespace": "N", "key": "k"}),
    Frame(Code.WIPE_WRITE_PERM_OF_BROKER, 1, {"brokerName": "broker-a"}),
    Frame(Code.DELETE_TOPIC_IN_NAMESRV, 1, {"topic": "T"}),
    Frame(
        Code.REGISTER_BROKER,
        1,
        header(RegisterBrokerRequest("broker-a", "evil:1", "C", 0, term=9)),
        encode_registration(Registration({}, 1)),
    ),
]
"""What does something, as it stands; one frame of ten is one of them."""


def frames(seed: int, account: str | None) -> Iterator[bytes]:
    """Frames for the client port or a name server; what can be read is signed by `account`."""
    fuzzer = FrameFuzzer(seed)
    for number in range(COUNT):
        data = fuzzer.next()
        if number % 10 == 0:
            data = encode_frame(CHANGES[number // 10 % len(CHANGES)]._replace(version=VERSION))
        if account is not None:
            try:
                frame = decode_frame(data)
                data = encode_frame(_signed(frame, account)._replace(version=VERSION))
            except (ProtocolError, ValueError, struct.error):
                pass
        yield data


def remoting(guarded: Guarded, address: str, account: str | None) -> None:
    asyncio.run(pour(address, list(frames(len(address), account))))


async def push(address: str, groups: Iterable[list[bytes]], meet: Callable[..., Any]) -> None:
    """Each group on a connection of its own, behind what `meet` does there."""
    host, _, port = address.rpartition(":")
    rest = iter(groups)

    async def worker() -> None:
        for group in rest:
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                await within(meet(reader, writer), "the hello is answered", limit(10))
                for piece in group:
                    writer.write(piece)
                    await writer.drain()
                writer.write_eof()
                while await within(reader.read(1 << 16), "the end", limit(20)):
                    pass
            except (ConnectionError, OSError):
                pass
            finally:
                writer.close()

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


def peer_messages(sender: NodeId) -> list[bytes]:
    """One of each kind, of terms long gone."""
    old, at = Term(0), EntryId(Term(0), Index(0))
    runs = (TermRun(Term(0), Index(1)),)
    parts: list[Message] = [
        VoteRequest(sender, old, at, False, False),
        VoteRequest(sender, old, at, True, True),
        VoteReply(sender, old, old, True, False),
        Heartbeat(sender, old, Index(0), 1),
        AppendEntries(sender, old, at, Index(1), Index(0), runs, 0, 0, 8, (bytes(8),), (), False),
        SnapshotReply(sender, old, Index(0), 0),
        ReadIndexRequest(sender, old, 1),
        TimeoutNow(sender, old),
    ]
    return [b"".join(bytes(part) for part in encode(message)) for message in parts]


def peer_groups(seed: int, me: Member, receiver: str, *, proven: bool) -> Iterator[list[bytes]]:
    """Pieces of a connection each; the first one of those that are not proven is a hello."""
    random, messages = Random(seed), peer_messages(me.node_id)
    for _ in range(COUNT // 4):
        group = [harmed(random, random.choice(messages)) for _ in range(4)]
        if not proven:
            wrong = random.choice((None, b"not the secret"))
            hello = _dialler(me, receiver, wrong, random).start()
            group[0] = harmed(random, hello) if random.random() < 0.8 else hello
        elif random.random() < 0.5:
            group[0] = random.choice(messages)  # as it should be
        yield group


def _dialler(me: Member, to: str, secret: bytes | None, random: Random) -> Dialler:
    return Dialler(me, NodeId(to), LinkKind.CONTROL, secret, random.randbytes(16), lambda *_: None)


def member_of(guarded: Guarded) -> tuple[Member, bytes]:
    """A follower, in the life that the group knows, and the peers' secret."""
    said = json.loads(guarded.ask(guarded.client, Code.LIST_MEMBERS).body)
    row = next(row for row in said["members"] if row["node"] != guarded.node)
    profile = guarded.cluster.profile
    me = Member(profile.cluster_id, "default", NodeId(row["node"]), row["incarnation"])
    return me, profile.settings["raft.secret"].encode()


def peers(guarded: Guarded, *, proven: bool) -> None:
    me, secret = member_of(guarded)
    random, met = Random(5), 0

    async def prove(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        dialler, decoder = _dialler(me, guarded.node, secret, random), PeerDecoder(1 << 16)
        writer.write(dialler.start())
        while dialler.peer is None:
            data = await reader.read(4096)
            if not data:
                return
            decoder.get_buffer()[: len(data)] = data
            found: list[PeerFrame] = list(decoder.frames(len(data)))
            for frame in found:
                writer.write(dialler.receive(frame))
        met += 1

    groups = peer_groups(6, me, guarded.node, proven=proven)
    asyncio.run(push(guarded.peer, groups, prove if proven else nothing))
    assert met == (COUNT // 4 if proven else 0)


def web(guarded: Guarded) -> None:
    host = guarded.admin.encode()
    groups = ([data.replace(b"HOST", host)] for data in web_requests(7, COUNT, None))
    asyncio.run(push(guarded.admin, groups, nothing))


Attack = Callable[[Guarded], None]
WITHOUT_A_RIGHT: dict[str, Attack] = {
    "client port, nobody": lambda g: remoting(g, g.client, None),
    "client port, an account without a right": lambda g: remoting(g, g.client, "without-right"),
    "name server, nobody": lambda g: remoting(g, g.nameserver, None),
    "name server, an account without a right": lambda g: remoting(g, g.nameserver, "without-right"),
    "peer port, without the secret": lambda g: peers(g, proven=False),
    "peer port, behind a proven hello": lambda g: peers(g, proven=True),
    "HTTP, nobody": web,
}
WITH_ALL_RIGHTS: dict[str, Attack] = {
    "client port": lambda g: remoting(g, g.client, "with-all"),
    "name server": lambda g: remoting(g, g.nameserver, "with-all"),
}


@pytest.mark.parametrize("attack", WITHOUT_A_RIGHT)
def test_nothing_is_changed_without_a_right(guarded: Guarded, attack: str) -> None:
    before = guarded.state()
    WITHOUT_A_RIGHT[attack](guarded)
    assert guarded.state() == before
    assert guarded.mistakes() == []
    assert len(guarded.cluster.running()) == 4


@pytest.mark.parametrize("attack", WITH_ALL_RIGHTS)
def test_nobody_dies_of_whoever_may_do_all(guarded: Guarded, attack: str) -> None:
    before = guarded.state()
    WITH_ALL_RIGHTS[attack](guarded)
    assert guarded.state() != before, "what is tried without a right would change something"
    assert guarded.mistakes() == []
    assert len(guarded.cluster.running()) == 4
