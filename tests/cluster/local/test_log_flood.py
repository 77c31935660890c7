"""Strangers who send nonsense by the thousands to a real process do not fill its log."""

from __future__ import annotations

import contextlib
import socket

from cluster.local.profile import BROKER
from dledger.core.types import NodeId
from dledger.membership.handshake import Dialler, LinkKind, Member
from tests.conftest import MakeCluster
from tests.waiting import limit

FORGED_COUNT = 3000
GROWN_BYTES_MAX = 1_000_000


def forged(number: int) -> bytes:
    """A hello whose every name is long, new, and holds a line break."""
    name = f"{number}\nforged " + "x" * 235
    me = Member(name, name, NodeId(name), number + 1)
    return Dialler(me, NodeId(name), LinkKind.CONTROL, None, b"n" * 16, lambda *_: None).start()


def say(address: str, data: bytes) -> None:
    """On a connection of its own, and wait until the server has closed it."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(ConnectionError), socket.create_connection((host, int(port))) as made:
        made.settimeout(limit(10))
        made.sendall(data)
        while made.recv(1 << 16):
            pass


def test_forged_hellos_and_frames_are_counted_in_the_log(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=1)
    (node,) = (member for member in cluster.profile.members if member.kind == BROKER)
    folder = cluster.folder(node.name)
    before = (folder / "log.txt").stat().st_size
    for number in range(FORGED_COUNT):
        say(node.peer, forged(number))
    for number in range(FORGED_COUNT):
        say(node.client, b"\x00\x00\x00\x20\x00\x00\x00\x10{%d\nforged" % number + b"\0" * 30)
    said = "".join(log.read_text() for log in folder.glob("log*.txt"))
    assert len(said) - before < GROWN_BYTES_MAX
    assert "closed a connection" in said
    assert f"({1 << 11} like it so far)" in said
    assert not [line for line in said.splitlines() if line.startswith("forged")]
    assert cluster.leader() == node.name
