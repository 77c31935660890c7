"""Hellos: the right peer is let in, every wrong one is told why."""

from __future__ import annotations

import itertools

import pytest

from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.handshake import (
    MAGIC,
    VERSION,
    Acceptor,
    Dialler,
    LinkKind,
    Member,
    RefusalReason,
    refusal_frame,
)
from dledger.wire.frames import Frame, FrameDecoder, FrameType, pack_frame

ALL = frozenset(map(NodeId, ("n0", "n1", "n2")))
ONE = Member("cluster-a", "g0", NodeId("n1"), 11)
TWO = Member("cluster-a", "g0", NodeId("n2"), 22)
_nonces = itertools.count(1)


def trust(_peer: NodeId, _incarnation: int) -> str | None:
    return None


def dialler(me: Member = ONE, to: str = "n2", secret: bytes | None = None) -> Dialler:
    nonce = next(_nonces).to_bytes(16, "big")
    return Dialler(me, NodeId(to), LinkKind.BULK, secret, nonce, trust)


def acceptor(me: Member = TWO, secret: bytes | None = None) -> Acceptor:
    return Acceptor(me, ALL, secret, next(_nonces).to_bytes(16, "big"), trust)


def frame(data: bytes) -> Frame:
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    (only,) = decoder.frames(len(data))
    return only


def meet(one: Dialler, two: Acceptor) -> None:
    answer = two.receive(frame(one.start()))
    proof = one.receive(frame(answer))
    if proof:
        assert two.hello is None, "nothing is believed before the proof"
        assert two.receive(frame(proof)) == b""


@pytest.mark.parametrize("secret", [None, b"cheese"])
def test_two_peers_meet(secret: bytes | None) -> None:
    one, two = dialler(secret=secret), acceptor(secret=secret)
    meet(one, two)
    assert one.peer == TWO
    assert two.hello is not None
    assert (two.hello.sender, two.hello.link_kind) == (ONE, LinkKind.BULK)


@pytest.mark.parametrize(
    ("caller", "to", "reason", "word"),
    [
        (ONE._replace(cluster_id="b"), "n2", RefusalReason.WRONG_CLUSTER, "cluster-a"),
        (ONE._replace(group="g1"), "n2", RefusalReason.WRONG_GROUP, "group g1"),
        (ONE, "n0", RefusalReason.WRONG_NODE, "wanted n0"),
        (ONE._replace(node_id=NodeId("n9")), "n2", RefusalReason.UNKNOWN_MEMBER, "n0, n1"),
        (ONE._replace(node_id=NodeId("n2")), "n2", RefusalReason.UNKNOWN_MEMBER, "n2"),
    ],
)
def test_a_wrong_caller_is_told_why(
    caller: Member, to: str, reason: RefusalReason, word: str
) -> None:
    one, two = dialler(caller, to), acceptor()
    with pytest.raises(PeerRefused) as refused:
        two.receive(frame(one.start()))
    assert two.hello is None
    with pytest.raises(PeerRefused) as told:
        one.receive(frame(refusal_frame(refused.value)))
    assert told.value.reason == reason
    assert str(told.value) == str(refused.value)
    assert word in str(told.value)
    assert str(told.value).count(". ") == 0, "one sentence"


def test_another_version_is_refused_and_other_programs_are_malformed() -> None:
    hello = bytearray(frame(dialler().start()).head)
    for other in (VERSION - 1, VERSION + 1):
        hello[4:6] = other.to_bytes(2, "big")
        with pytest.raises(PeerRefused, match=f"version {other} and .* run the same release"):
            acceptor().receive(frame(pack_frame(FrameType.HELLO, bytes(hello))))
    for head in (b"", b"GET / HTTP/1.1\r\n" + bytes(40), MAGIC, bytes(hello[:30])):
        with pytest.raises(MalformedFrame):
            acceptor().receive(frame(pack_frame(FrameType.HELLO, head)))
    cut = bytes(frame(dialler().start()).head)[:-1]
    with pytest.raises(MalformedFrame):
        acceptor().receive(frame(pack_frame(FrameType.HELLO, cut)))


def test_messages_before_the_hello_are_malformed() -> None:
    heartbeat = pack_frame(FrameType.HEARTBEAT, bytes(24))
    with pytest.raises(MalformedFrame):
        acceptor().receive(frame(heartbeat))
    one = dialler()
    one.start()
    with pytest.raises(MalformedFrame):
        one.receive(frame(heartbeat))


@pytest.mark.parametrize(("mine", "theirs"), [(b"a", None), (None, b"a")])
def test_a_secret_on_one_side_only_is_refused(mine: bytes | None, theirs: bytes | None) -> None:
    with pytest.raises(PeerRefused, match="secret"):
        acceptor(secret=theirs).receive(frame(dialler(secret=mine).start()))


def test_different_secrets_are_refused_by_both_sides() -> None:
    one, two = dialler(secret=b"a"), acceptor(secret=b"b")
    answer = two.receive(frame(one.start()))
    with pytest.raises(PeerRefused, match="secret"):
        one.receive(frame(answer))
    forged = pack_frame(FrameType.PROOF, bytes(32))
    with pytest.raises(PeerRefused, match="secret"):
        two.receive(frame(forged))
    assert two.hello is None


def test_a_proof_is_worth_nothing_on_another_connection() -> None:
    one, two = dialler(secret=b"a"), acceptor(secret=b"a")
    proof = one.receive(frame(two.receive(frame(one.start()))))
    again = acceptor(secret=b"a")
    again.receive(frame(dialler(secret=b"a").start()))
    with pytest.raises(PeerRefused):
        again.receive(frame(proof))


def test_the_secret_is_not_on_the_wire() -> None:
    one, two = dialler(secret=b"gorgonzola"), acceptor(secret=b"gorgonzola")
    hello = one.start()
    answer = two.receive(frame(hello))
    assert b"gorgonzola" not in hello + answer + one.receive(frame(answer))


def test_another_incarnation_is_refused_on_both_sides() -> None:
    def vouch(peer: NodeId, incarnation: int) -> str | None:
        return None if incarnation == 5 else f"{peer} came back as another one"

    one, two = dialler(), acceptor()
    two.vouch = vouch
    with pytest.raises(PeerRefused, match="came back"):
        two.receive(frame(one.start()))
    one, two = dialler(), acceptor()
    one.vouch = vouch
    with pytest.raises(PeerRefused, match="came back"):
        one.receive(frame(two.receive(frame(one.start()))))
    assert one.peer is None


def test_names_have_a_limit() -> None:
    with pytest.raises(ValueError, match="255"):
        dialler(to="n" * 256).start()


def test_a_certificate_of_another_node_is_refused() -> None:
    """By the accepting side before it answers, and by the dialling side."""
    one, two = dialler(), acceptor()
    two.certified = frozenset({NodeId("n0")})
    with pytest.raises(PeerRefused, match="n1 shows the certificate of n0") as refused:
        two.receive(frame(one.start()))
    assert refused.value.reason == RefusalReason.WRONG_CERTIFICATE
    assert two.hello is None
    one, two = dialler(), acceptor()
    one.certified, two.certified = frozenset({NodeId("n0")}), frozenset({NodeId("n1")})
    with pytest.raises(PeerRefused, match="n2 shows the certificate of n0"):
        meet(one, two)
    assert one.peer is None
