"""Peers compare generations before a word is heard; who knows none is met as before."""

from __future__ import annotations

import itertools

import pytest

from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.generation import NO_GENERATION, Generation, frame_for, read_told
from dledger.membership.handshake import Acceptor, Dialler, LinkKind, Member, RefusalReason
from dledger.wire.frames import Frame, FrameDecoder, FrameType, pack_frame

ALL = frozenset(map(NodeId, ("n1", "n2")))
ONE = Member("cluster-a", "g0", NodeId("n1"), 11)
TWO = Member("cluster-a", "g0", NodeId("n2"), 22)
SECRETS = pytest.mark.parametrize("secret", [None, b"cheese"])
_nonces = itertools.count(1)


class Memory:
    """Remembers in a dict; `current` and everything before it is what its folder has."""

    def __init__(self, current: Generation) -> None:
        self.current = current
        self.known: dict[tuple[str, int], Generation] = {}

    def met(self, peer: NodeId, incarnation: int) -> Generation:
        return self.known.get((peer, incarnation), NO_GENERATION)

    def judge(self, peer: NodeId, met: Generation) -> str | None:
        return f"older than {met.number}" if met.number > self.current.number else None

    def remember(self, peer: NodeId, incarnation: int, generation: Generation) -> None:
        self.known[peer, incarnation] = generation


def pair(
    one: Memory | None, two: Memory | None, secret: bytes | None = None
) -> tuple[Dialler, Acceptor]:
    first, second = (next(_nonces).to_bytes(16, "big") for _ in range(2))
    return (
        Dialler(ONE, TWO.node_id, LinkKind.BULK, secret, first, lambda *_: None, witness=one),
        Acceptor(TWO, ALL, secret, second, lambda *_: None, witness=two),
    )


def frames(data: bytes) -> list[Frame]:
    decoder = FrameDecoder()
    decoder.get_buffer()[: len(data)] = data
    return [Frame(f.type, memoryview(bytes(f.head)), f.raw) for f in decoder.frames(len(data))]


def meet(dialler: Dialler, acceptor: Acceptor) -> None:
    """All frames of both, in order; nothing is believed before the last one."""
    to_acceptor = dialler.start()
    while to_acceptor:
        to_dialler = b"".join(acceptor.receive(frame) for frame in frames(to_acceptor))
        to_acceptor = b""
        for frame in frames(to_dialler):
            assert dialler.peer is None
            to_acceptor += dialler.receive(frame)


@SECRETS
def test_the_acceptor_remembers_what_it_met(secret: bytes | None) -> None:
    one, two = Memory(Generation(5, 55)), Memory(Generation(8, 88))
    dialler, acceptor = pair(one, two, secret)
    meet(dialler, acceptor)
    assert dialler.peer == TWO
    assert acceptor.hello is not None
    assert two.known == {("n1", 11): Generation(5, 55)}
    assert not one.known, "a dialler does not know yet whether the other one will deny it"


@SECRETS
def test_a_dialler_that_is_older_says_nothing_more(secret: bytes | None) -> None:
    one, two = Memory(Generation(5, 55)), Memory(Generation(8, 88))
    two.known["n1", 11] = Generation(6, 55)
    dialler, acceptor = pair(one, two, secret)
    with pytest.raises(PeerRefused, match="older than 6") as refused:
        meet(dialler, acceptor)
    assert refused.value.reason == RefusalReason.OLDER_COPY
    assert dialler.peer is None
    assert acceptor.hello is None
    assert two.known == {("n1", 11): Generation(6, 55)}


@SECRETS
def test_an_acceptor_that_is_older_hears_nothing(secret: bytes | None) -> None:
    one, two = Memory(Generation(5, 55)), Memory(Generation(8, 88))
    one.known["n2", 22] = Generation(9, 88)
    dialler, acceptor = pair(one, two, secret)
    with pytest.raises(PeerRefused, match="older than 9"):
        meet(dialler, acceptor)
    assert acceptor.hello is None


def test_another_incarnation_has_other_generations() -> None:
    one, two = Memory(Generation(5, 55)), Memory(Generation(8, 88))
    two.known["n1", 12] = Generation(6, 55)
    dialler, acceptor = pair(one, two)
    meet(dialler, acceptor)
    assert acceptor.hello is not None


@SECRETS
@pytest.mark.parametrize("knowing", ["dialler", "acceptor", "none"])
def test_a_release_that_knows_none_is_met_as_before(secret: bytes | None, knowing: str) -> None:
    memory = Memory(Generation(5, 55))
    memory.known["n1", 11] = memory.known["n2", 22] = Generation(9, 99)
    dialler, acceptor = pair(
        memory if knowing == "dialler" else None,
        memory if knowing == "acceptor" else None,
        secret,
    )
    meet(dialler, acceptor)
    assert dialler.peer == TWO
    assert not dialler.compared
    assert acceptor.hello is not None


@pytest.mark.parametrize(
    "wrong",
    [
        pack_frame(FrameType.GENERATION, bytes(31)),
        pack_frame(FrameType.HEARTBEAT, bytes(24)),
        pack_frame(FrameType.PROOF, bytes(32)),
    ],
)
def test_something_else_instead_is_malformed(wrong: bytes) -> None:
    memory = Memory(Generation(1, 1))
    dialler, acceptor = pair(memory, memory)
    answer = acceptor.receive(frames(dialler.start())[0])
    with pytest.raises(MalformedFrame):
        acceptor.receive(frames(wrong)[0])
    assert acceptor.hello is None
    dialler.receive(frames(answer)[0])
    with pytest.raises(MalformedFrame):
        dialler.receive(frames(wrong)[0])
    assert dialler.peer is None


def test_what_is_told_is_read_again() -> None:
    memory = Memory(Generation(7, (1 << 63) - 1))
    memory.known["n2", 22] = Generation(3, 4)
    (frame,) = frames(frame_for(memory, NodeId("n2"), 22))
    assert read_told(frame) == (memory.current, Generation(3, 4))
