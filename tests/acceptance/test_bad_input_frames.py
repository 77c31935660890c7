"""Bytes that are no frame, on every port: that connection ends, no other one notices."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from cluster.local.launcher import LocalCluster
from dledger.core.types import NodeId
from dledger.errors import PeerRefused
from dledger.membership.handshake import Dialler, LinkKind, Member, RefusalReason
from dledger.wire.frames import FRAME, FRAME_SIZE, FrameDecoder, FrameType, pack_frame
from tests.waiting import limit, wait_until

from .conftest import MESSAGES, TOPIC, body_of
from .frames import NO_FRAMES, RawClient, pull_fields, raw, send_fields
from .node_process import ROOT, NodeProcess


@pytest.fixture(scope="module")
def name_server(new_address: Callable[[], str]) -> Iterator[str]:
    """The address of a name server process."""
    address = f"{new_address()}:9876"
    process = subprocess.Popen(
        [sys.executable, "-m", "cluster.local.nameserver_main", "--listen", address],
        cwd=ROOT,
        stderr=subprocess.PIPE,
    )
    try:

        def is_listening() -> bool:
            assert process.poll() is None
            try:
                RawClient(address).close()
            except OSError:
                return False
            return True

        wait_until(is_listening, "a name server that listens")
        yield address
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=limit(15))
        assert process.returncode == 0
        assert b"Traceback" not in log, log.decode()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", NO_FRAMES)
def test_the_client_port(name: str, served: NodeProcess) -> None:
    with raw(served.client) as witness, raw(served.client) as bad:
        assert witness.ask(30, {"topic": TOPIC, "queueId": 0}).ext["offset"]
        assert bad.ask(30, {"topic": TOPIC, "queueId": 0}).code == 0
        bad.send(NO_FRAMES[name])
        assert bad.is_closed_by_peer()
        answer = witness.ask(11, pull_fields(TOPIC, 0, MESSAGES - 1))
        assert body_of(MESSAGES - 1) in answer.body


@pytest.mark.parametrize("name", NO_FRAMES)
def test_the_name_server_port(name: str, name_server: str) -> None:
    with raw(name_server) as witness, raw(name_server) as bad:
        assert witness.ask(106).code == 0
        assert bad.ask(106).code == 0
        bad.send(NO_FRAMES[name])
        assert bad.is_closed_by_peer()
        assert witness.ask(106).code == 0


def test_a_send_before_the_bad_bytes_is_answered(served: NodeProcess) -> None:
    """What was whole before the connection broke is stored and answered."""
    with raw(served.client) as first:
        first.ask(310, send_fields("before"), b"0")
    with raw(served.client) as client:
        opaque_one = client.ask(310, send_fields("before"), b"1")
        assert opaque_one.ext["queueOffset"] == "1"
        client.send(NO_FRAMES["size over the limit"])
        assert client.is_closed_by_peer()
    with raw(served.client) as client:
        assert client.ask(310, send_fields("before"), b"2").ext["queueOffset"] == "2"


PEER_RUBBISH = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(64),
    "a hello over its limit": FRAME.pack(1 << 20, FrameType.HELLO, 0, 0, 1 << 19, 0),
    "size over every limit": FRAME.pack(0xFFFFFFFF, FrameType.APPEND, 0, 0, 56, 0),
    "a wrong checksum": pack_frame(FrameType.HELLO, b"x" * 40)[:-1] + b"y",
    "a heartbeat before the hello": pack_frame(FrameType.HEARTBEAT, bytes(24)),
    "a hello of another program": pack_frame(FrameType.HELLO, b"RAFT" + bytes(60)),
    "a hello that is cut off": pack_frame(FrameType.HELLO, b"DLR\x01\x00\x01"),
    "a remoting frame": NO_FRAMES["header a list"],
}


@pytest.mark.parametrize("name", PEER_RUBBISH)
def test_the_peer_port(name: str, served: NodeProcess) -> None:
    with raw(served.peer) as bad, raw(served.client) as witness:
        bad.send(PEER_RUBBISH[name])
        assert bad.is_closed_by_peer()
        assert witness.ask(310, send_fields("peers"), b"goes on").code == 0


def refusal(address: str, me: Member, wanted: str, version: int = 1) -> tuple[int, str]:
    """What a node answers to this hello: reason and sentence, and that it closes."""
    dialler = Dialler(me, NodeId(wanted), LinkKind.CONTROL, None, bytes(16), lambda *_: None)
    hello = bytearray(dialler.start())
    if version != 1:
        head = bytearray(hello[FRAME_SIZE:])
        head[4:6] = struct.pack(">H", version)
        hello = bytearray(pack_frame(FrameType.HELLO, bytes(head)))
    with raw(address) as client:
        client.send(bytes(hello))
        data = b""
        while piece := client.socket.recv(4096):
            data += piece
    assert data[4] == FrameType.REFUSED
    (reason,) = struct.unpack_from(">H", data, FRAME_SIZE)
    return reason, data[FRAME_SIZE + 2 :].decode()


def test_a_hello_of_another_cluster_or_group_is_told_why(served: NodeProcess) -> None:
    node = NodeId("n0")
    cases = [
        (Member("other", "default", NodeId("n1"), 1), "n0", RefusalReason.WRONG_CLUSTER,
         "n1 is of cluster other and n0 of acceptance; check the peer addresses"),
        (Member("acceptance", "other", NodeId("n1"), 1), "n0", RefusalReason.WRONG_GROUP,
         "n1 is of group other and n0 of default; check the peer addresses"),
        (Member("acceptance", "default", NodeId("n1"), 1), "n7", RefusalReason.WRONG_NODE,
         "n1 wanted n7 and reached n0; check the peer addresses"),
        (Member("acceptance", "default", NodeId("n9"), 1), "n0", RefusalReason.UNKNOWN_MEMBER,
         "n0 knows no peer n9"),
        (Member("acceptance", "default", node, 1), "n0", RefusalReason.UNKNOWN_MEMBER,
         "n0 knows no peer n0"),
    ]  # fmt: skip
    for me, wanted, reason, sentence in cases:
        said = refusal(served.peer, me, wanted)
        assert said[0] == reason
        assert sentence in said[1]
    me = Member("acceptance", "default", NodeId("n1"), 1)
    reason, sentence = refusal(served.peer, me, "n0", version=9)
    assert reason == RefusalReason.WRONG_VERSION
    assert "run the same release on every node" in sentence
    assert "is of cluster other" in served.output(), "the operator reads it in the node's log"


def test_a_peer_that_forgot_itself_is_refused(local_cluster: LocalCluster) -> None:
    """The right names, the secret and another incarnation: a node whose folder was emptied (R6)."""
    member = local_cluster.profile.member("n0")
    me = Member(local_cluster.profile.cluster_id, "default", NodeId("n1"), 424242)
    secret = local_cluster.profile.settings["raft.secret"].encode()
    dialler = Dialler(me, NodeId("n0"), LinkKind.CONTROL, secret, bytes(16), lambda *_: None)
    decoder = FrameDecoder(1 << 16)

    def meet() -> None:
        with raw(member.peer) as client:
            client.send(dialler.start())
            while piece := client.socket.recv(4096):
                decoder.get_buffer()[: len(piece)] = piece
                for frame in decoder.frames(len(piece)):
                    client.send(dialler.receive(frame))

    with pytest.raises(PeerRefused, match="n1") as refused:
        meet()
    assert refused.value.reason == RefusalReason.WRONG_INCARNATION
    assert local_cluster.leader() is not None


def test_random_bytes_everywhere(served: NodeProcess) -> None:
    """A thousand pieces of nothing; whoever listens is still there afterwards."""
    chance = random.Random(20261121)
    for port in (served.client, served.peer, served.admin):
        for _ in range(60):
            with raw(port) as bad:
                bad.socket.settimeout(limit(2))
                try:
                    bad.send(chance.randbytes(chance.randrange(1, 4000)))
                    if chance.random() < 0.5:
                        bad.socket.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
                except OSError:
                    pass
    with raw(served.client) as witness:
        assert witness.ask(310, send_fields("after"), os.urandom(100)).code == 0
