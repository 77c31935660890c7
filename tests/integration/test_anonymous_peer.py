"""An anonymous process at the ports of a plain `dledger up`: nothing moves."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER
from cluster.protocol.frames import Frame as ClientFrame
from cluster.protocol.frames import FrameDecoder as ClientDecoder
from cluster.protocol.frames import encode_frame
from cluster.protocol.headers import RegisterBrokerRequest, encode
from cluster.protocol.topics import Registration, encode_registration
from dledger.core.messages import Heartbeat
from dledger.core.types import Index, NodeId, Term
from dledger.errors import PeerRefused
from dledger.membership.handshake import Dialler, LinkKind, Member, RefusalReason
from dledger.wire.frames import FrameDecoder
from dledger.wire.messages import encode as encode_message

SMALL = {"raft.data_file_size": str(16 << 20), "raft.index_file_size": str(1 << 20)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """As `dledger up` makes it: no setting of its own about secrets."""
    folder = tmp_path_factory.mktemp("anonymous")
    members = plan.plan(3, plan.scratch_hosts(3))
    cluster = LocalCluster.create(folder / "c", members, SMALL, tied=True)
    cluster.up()
    try:
        yield cluster
    finally:
        cluster.down()


def _terms(cluster: LocalCluster) -> list[int]:
    return [int(status["term"]) for status in cluster.statuses().values() if status]


def _greet(address: str, dialler: Dialler, then: bytes) -> None:
    """Say that hello, and what comes behind it; raises what the node says to it."""
    host, _, port = address.rpartition(":")
    decoder = FrameDecoder(1 << 20)
    with socket.create_connection((host, int(port)), 10) as line:
        line.sendall(dialler.start() + then)
        while data := line.recv(65536):
            room = decoder.get_buffer()
            room[: len(data)] = data
            for frame in decoder.frames(len(data)):
                dialler.receive(frame)


@pytest.mark.parametrize("secret", [None, b"guessed by somebody"])
def test_a_process_without_the_secret_is_refused_by_every_node(
    plain: LocalCluster, secret: bytes | None
) -> None:
    """It calls itself a member, and sends term 2^62 with its hello."""
    before = _terms(plain)
    absurd = encode_message(Heartbeat(NodeId("n2"), Term(1 << 62), Index(-1), 1))
    then = b"".join(bytes(part) for part in absurd)
    for member in plain.profile.of_kind(BROKER):
        me = Member(plain.profile.cluster_id, "default", NodeId("n9"), 1)
        for name in ("n0", "n1", "n2"):
            if name == member.name:
                continue
            dialler = Dialler(
                me._replace(node_id=NodeId(name)),
                NodeId(member.name),
                LinkKind.CONTROL,
                secret,
                bytes(16),
                lambda *_: None,
            )
            with pytest.raises(PeerRefused) as found:
                _greet(member.peer, dialler, then)
            assert found.value.reason == RefusalReason.WRONG_SECRET
    assert max(_terms(plain)) < 1 << 32
    assert min(_terms(plain)) >= min(before)


def test_a_registration_without_a_proof_is_refused(plain: LocalCluster) -> None:
    asked: list[ClientFrame] = []
    host, _, port = plain.nameserver.rpartition(":")
    decoder = ClientDecoder()

    def ask(line: socket.socket, frame: ClientFrame) -> ClientFrame:
        line.sendall(encode_frame(frame))
        while not (found := decoder.feed(line.recv(65536))):
            pass
        asked.append(frame)
        return found[0]

    route = ClientFrame(106, 2, {}, b"", version=453)
    with socket.create_connection((host, int(port)), 10) as line:
        before = ask(line, route)
        assert before.code == 0
        request = RegisterBrokerRequest("broker-a", "127.0.0.66:6", "DefaultCluster", 0, term=1000)
        body = encode_registration(Registration({}, 1 << 40))
        refused = ask(line, ClientFrame(103, 1, encode(request), body, version=453))
        assert (refused.code, "does not prove" in (refused.remark or "")) == (16, True)
        assert b"127.0.0.66" not in ask(line, route).body
        settings = ClientFrame(318, 3, {}, b"unknown=1\n", version=453)
        assert ask(line, settings).code == 0, "from this machine, as mqadmin asks"
    assert len(asked) == 4
