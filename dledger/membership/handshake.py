"""The handshake of two peers: node, cluster, and proof of the secret. Sans-IO.

    dialler                                  acceptor
      │ HELLO    magic, version, link kind,      │  checks version, cluster, group, who is meant,
      │          names, incarnation, nonce ────►│  who calls, its incarnation
      │◄──────── WELCOME incarnation, nonce,    │  or REFUSED reason, sentence, and the end
      │          proof                          │
      │◄──────── GENERATION (where both know it)│
      │ PROOF    (only with a secret) ─────────►│  or REFUSED
      │ GENERATION (as above) ─────────────────►│  or REFUSED
      │ messages ──────────────────────────────►│  messages flow this way only

    HELLO    magic 4 | version 2 | link kind 1 | flags 1 | incarnation 8 | nonce 16
             | 5 × (size 1 | UTF-8): cluster id, group, sender, wanted receiver,
               and where the sender is reached (absent when it does not say)
    WELCOME  flags 1 | incarnation 8 | nonce 16 | proof 32 (zeros without a secret)
    PROOF    proof 32
    GENERATION  as in generation.py: is either's folder older than what the other has met of it?
    REFUSED  reason 2 | UTF-8 sentence

Each node dials each peer, once per link kind, so that a fault on one direction of a link is a
fault of that direction only. A proof (proof.py) is over the role, the hello and the welcome with
both nonces: it shows that the other side has the secret now, and does not reveal it. It guards
the beginning of a connection; against someone who can change bytes on the path later, use TLS.

The upper three bits of the flags are the sender's feature level (`Member.level`): earlier releases
leave them at 0, and do not look at them.

Versions must be equal: a frame that the other side does not know would cost the connection again
and again, in the middle of a term. Who says another one is refused before anything else of its
hello is read, so later versions may change what stands behind the version.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dledger.core.types import NodeId
from dledger.errors import MalformedFrame, PeerRefused
from dledger.membership.generation import Told, Witness, frame_for, read_told
from dledger.membership.proof import NONCE_SIZE, PROOF_SIZE, prove, proves
from dledger.wire.frames import Frame, FrameType, pack_frame, pack_name, read_names

MAGIC = b"DLR\x01"
#: Raised with every frame, head or flag that a node of the version before does not understand.
#: 1: the first; different builds said so, so what one of them knows cannot be told. 2: every frame
#: type up to RANGE_REPLY, appends that flag configurations, promises behind heartbeat replies.
VERSION = 2
SENTENCE_BYTES_MAX = 512

_HELLO = struct.Struct(">4sHBBQ16s")
_WELCOME = struct.Struct(">BQ16s32s")
_REASON = struct.Struct(">H")
_HAS_SECRET = 1
_IS_NAMED = 2
# Earlier releases of the same version do not look at these.
_KNOWS_GENERATIONS = 4
_KNOWS_CLOCKS = 8
_KNOWS_FORWARDS = 16
_LEVEL_SHIFT = 5
LEVEL_MAX = 7
_NO_PROOF = bytes(PROOF_SIZE)


class LinkKind(enum.IntEnum):
    """CONTROL: heartbeats, votes, reads. BULK: appends and their answers (L2)."""

    CONTROL = 0
    BULK = 1


class RefusalReason(enum.IntEnum):
    """Why a connection is not wanted."""

    WRONG_VERSION = 2
    WRONG_CLUSTER = 3
    WRONG_GROUP = 4
    WRONG_NODE = 5
    UNKNOWN_MEMBER = 6
    WRONG_SECRET = 7
    WRONG_INCARNATION = 8
    TLS_WANTED = 9
    WRONG_CERTIFICATE = 10
    OLDER_COPY = 11
    #: The host that was dialled does not run the group, or not yet.
    GROUP_NOT_OPEN = 12


class Member(NamedTuple):
    """A node as in each of its hellos: its names and its incarnation.

    `named`: the configuration in its log names it, in this incarnation. A node that forgot all
    cannot say so. `level`: the highest feature level of records that its state machine understands.
    """

    cluster_id: str
    group: str
    node_id: NodeId
    incarnation: int
    named: bool = False
    level: int = 0


class Hello(NamedTuple):
    """The values of a dialler's hello."""

    link_kind: LinkKind
    sender: Member
    receiver: NodeId
    has_secret: bool
    address: str = ""
    knows_generations: bool = False


Vouch = Callable[[NodeId, int], str | None]
"""(peer, incarnation) → None when it is the one we know, else a sentence that refuses it."""


Strangers = Callable[[Member], bool]
"""Returns True to let in a node, or incarnation, that we do not know: it may ask and lead."""


class Roll(Protocol):
    """The nodes that may call, at any moment."""

    def __contains__(self, node: object) -> bool: ...

    def __iter__(self) -> Iterator[NodeId]: ...


@dataclass(slots=True)
class Dialler:
    """Our side of a connection that we opened. `start`, then feed frames until `peer` is set."""

    me: Member
    receiver: NodeId
    link_kind: LinkKind
    secret: bytes | None
    nonce: bytes
    vouch: Vouch
    address: str = ""
    strangers: Strangers = lambda _: False
    #: Nodes that the other side's certificate names; none: it shows no name, or no certificate.
    certified: Collection[NodeId] = ()
    #: None: nobody remembers generations.
    witness: Witness | None = None
    peer: Member | None = None
    #: The peer's welcome says that it may be told of clocks (runtime/group_clock.py).
    knows_clocks: bool = False
    #: It says that commands may be forwarded to it (wire/forwards.py).
    knows_forwards: bool = False
    _welcomed: Member | None = None
    _hello: bytes = b""

    @property
    def compared(self) -> bool:
        """The peer knows generations."""
        return self._welcomed is not None

    def start(self) -> bytes:
        """Bytes to send first."""
        flags = _flags(self.secret, self.me, self.witness)
        assert len(self.nonce) == NONCE_SIZE
        self._hello = _HELLO.pack(
            MAGIC, VERSION, self.link_kind, flags, self.me.incarnation, self.nonce
        ) + b"".join(
            map(pack_name, (self.me.cluster_id, self.me.group, self.me.node_id, self.receiver))
        )
        if self.address:
            self._hello += pack_name(self.address)
        return pack_frame(FrameType.HELLO, self._hello)

    def receive(self, frame: Frame) -> bytes:
        """Bytes to send next; then the connection is open. Raises PeerRefused, MalformedFrame."""
        if frame.type is FrameType.REFUSED:
            raise _refusal(bytes(frame.head))
        if self._welcomed is not None:
            return self._compare(self._welcomed, frame)
        if frame.type is not FrameType.WELCOME or len(frame.head) != _WELCOME.size:
            raise MalformedFrame("a peer answered a hello with something else than a welcome")
        _check_certificate(self.receiver, self.certified)
        welcome = bytes(frame.head)
        flags, incarnation, _, proof = _WELCOME.unpack(welcome)
        answer = b""
        if self.secret:
            transcript = self._hello + welcome[:-PROOF_SIZE]
            if not flags & _HAS_SECRET or not proves(proof, self.secret, b"acceptor", transcript):
                raise PeerRefused(
                    RefusalReason.WRONG_SECRET,
                    f"{self.receiver} does not prove the cluster secret; "
                    "give every node the same secret",
                )
            answer = pack_frame(FrameType.PROOF, prove(self.secret, b"dialler", transcript))
        named = bool(flags & _IS_NAMED)
        self.knows_clocks = bool(flags & _KNOWS_CLOCKS)
        self.knows_forwards = bool(flags & _KNOWS_FORWARDS)
        peer = Member(self.me.cluster_id, self.me.group, self.receiver, incarnation, named)
        sentence = self.vouch(self.receiver, incarnation)
        if sentence is not None and not self.strangers(peer):
            raise PeerRefused(RefusalReason.WRONG_INCARNATION, sentence)
        if self.witness is not None and flags & _KNOWS_GENERATIONS:
            self._welcomed = peer
        else:
            self.peer = peer
        return answer

    def _compare(self, peer: Member, frame: Frame) -> bytes:
        """The last step: judge the peer's GENERATION frame, and answer with ours."""
        assert self.witness is not None
        _hear(self.witness, peer, frame)
        self.peer = peer
        return frame_for(self.witness, peer.node_id, peer.incarnation)


@dataclass(slots=True)
class Acceptor:
    """Our side of a connection that a peer opened. Feed frames until `hello` is set."""

    me: Member
    members: Collection[NodeId] | Roll
    secret: bytes | None
    nonce: bytes
    vouch: Vouch
    visited: Callable[[Hello], None] = lambda _: None
    strangers: Strangers = lambda _: False
    #: As of a Dialler.
    certified: Collection[NodeId] = ()
    #: As of a Dialler.
    witness: Witness | None = None
    hello: Hello | None = None
    _said: Hello | None = None
    _admitted: Hello | None = None
    _transcript: bytes = b""

    def receive(self, frame: Frame) -> bytes:
        """Bytes to send next. Raises PeerRefused (send `refusal_frame` of it), MalformedFrame."""
        if self._said is None:
            return self._greet(frame)
        if self._admitted is not None:
            self._compare(self._admitted, frame)
            return b""
        assert self.secret is not None
        if frame.type is not FrameType.PROOF or not proves(
            bytes(frame.head), self.secret, b"dialler", self._transcript
        ):
            raise _wrong_secret(self.me.node_id)
        self._admit(self._said)
        return b""

    def _greet(self, frame: Frame) -> bytes:
        said, raw = hello_of(frame), bytes(frame.head)
        self._check(said)
        flags, told = _flags(self.secret, self.me), b""
        if self.witness is not None and said.knows_generations:
            flags |= _KNOWS_GENERATIONS
            sender = said.sender
            told = frame_for(self.witness, sender.node_id, sender.incarnation)
        head = _WELCOME.pack(flags, self.me.incarnation, self.nonce, _NO_PROOF)[:-PROOF_SIZE]
        self._said, self._transcript = said, raw + head
        if not self.secret:
            self._admit(said)
            return pack_frame(FrameType.WELCOME, head + _NO_PROOF) + told
        proof = prove(self.secret, b"acceptor", self._transcript)
        return pack_frame(FrameType.WELCOME, head + proof) + told

    def _check(self, said: Hello) -> None:
        """Names first: they tell an operator most about a wrong address."""
        me, other = self.me, said.sender
        if other.cluster_id != me.cluster_id:
            raise PeerRefused(
                RefusalReason.WRONG_CLUSTER,
                f"{other.node_id} is of cluster {other.cluster_id} and {me.node_id} of "
                f"{me.cluster_id}; check the peer addresses and the folder of each node",
            )
        if other.group != me.group:
            raise PeerRefused(
                RefusalReason.WRONG_GROUP,
                f"{other.node_id} is of group {other.group} and {me.node_id} of {me.group}; "
                "check the peer addresses",
            )
        if said.receiver != me.node_id:
            raise PeerRefused(
                RefusalReason.WRONG_NODE,
                f"{other.node_id} wanted {said.receiver} and reached {me.node_id}; "
                "check the peer addresses",
            )
        _check_certificate(other.node_id, self.certified)
        if said.has_secret != bool(self.secret):
            raise _wrong_secret(me.node_id)

    def _admit(self, said: Hello) -> None:
        """Accept a peer that proved the secret, if it is a member with the known incarnation."""
        me, other = self.me.node_id, said.sender.node_id
        if other != me:
            self.visited(said)
        stranger = self.strangers(said.sender)
        if other == me or (other not in self.members and not stranger):
            raise PeerRefused(
                RefusalReason.UNKNOWN_MEMBER,
                f"{me} knows no peer {other}; "
                f"its peers are {', '.join(sorted(set(self.members) - {me}))}",
            )
        sentence = self.vouch(other, said.sender.incarnation)
        if sentence is not None and not stranger:
            raise PeerRefused(RefusalReason.WRONG_INCARNATION, sentence)
        if self.witness is not None and said.knows_generations:
            self._admitted = said
        else:
            self.hello = said

    def _compare(self, said: Hello, frame: Frame) -> None:
        """The peer went on after our GENERATION frame: remember its own, accept its hello."""
        assert self.witness is not None
        told = _hear(self.witness, said.sender, frame)
        self.witness.remember(said.sender.node_id, said.sender.incarnation, told.own)
        self.hello = said


def refusal_frame(refused: PeerRefused) -> bytes:
    """The REFUSED frame that the acceptor sends before it closes."""
    sentence = str(refused).encode()[:SENTENCE_BYTES_MAX]
    return pack_frame(FrameType.REFUSED, _REASON.pack(refused.reason) + sentence)


def hello_of(frame: Frame) -> Hello:
    """The first frame of a connection, read. Raises as `read_hello`."""
    if frame.type is not FrameType.HELLO:
        raise MalformedFrame("a connection must begin with a hello")
    return read_hello(bytes(frame.head))


def read_hello(head: bytes) -> Hello:
    """Raises MalformedFrame for other programs' bytes, PeerRefused for another version."""
    if len(head) < _HELLO.size or head[:4] != MAGIC:
        raise MalformedFrame("a hello does not begin with this protocol's magic")
    _, version, link_kind, flags, incarnation, _ = _HELLO.unpack_from(head)
    if version != VERSION:
        raise PeerRefused(
            RefusalReason.WRONG_VERSION,
            f"a peer speaks protocol version {version} and this node version {VERSION}; "
            "run the same release on every node",
        )
    names = read_names(head, _HELLO.size)
    if link_kind not in (LinkKind.CONTROL, LinkKind.BULK) or len(names) not in (4, 5):
        raise MalformedFrame("a hello has the wrong form")
    cluster_id, group, sender, receiver, *address = names
    named, level = bool(flags & _IS_NAMED), flags >> _LEVEL_SHIFT
    return Hello(
        LinkKind(link_kind),
        Member(cluster_id, group, NodeId(sender), incarnation, named, level),
        NodeId(receiver),
        bool(flags & _HAS_SECRET),
        "".join(address),
        bool(flags & _KNOWS_GENERATIONS),
    )


def _flags(secret: bytes | None, me: Member, witness: Witness | None = None) -> int:
    assert 0 <= me.level <= LEVEL_MAX
    known = _KNOWS_CLOCKS | _KNOWS_FORWARDS | (0 if witness is None else _KNOWS_GENERATIONS)
    known |= me.level << _LEVEL_SHIFT
    return known | (_HAS_SECRET if secret else 0) | (_IS_NAMED if me.named else 0)


def _hear(witness: Witness, peer: Member, frame: Frame) -> Told:
    """Read the peer's GENERATION frame. Raises PeerRefused when our folder is an older copy."""
    told = read_told(frame)
    sentence = witness.judge(peer.node_id, told.met)
    if sentence is not None:
        raise PeerRefused(RefusalReason.OLDER_COPY, sentence)
    return told


def _check_certificate(node: NodeId, certified: Collection[NodeId]) -> None:
    """The name in a hello and the names in a certificate must agree, where there are any."""
    if certified and node not in certified:
        raise PeerRefused(
            RefusalReason.WRONG_CERTIFICATE,
            f"{node} shows the certificate of {', '.join(sorted(certified))}; "
            "give every node its own certificate",
        )


def _wrong_secret(node: NodeId) -> PeerRefused:
    return PeerRefused(
        RefusalReason.WRONG_SECRET,
        f"{node} and the caller do not share one cluster secret; give every node the same secret",
    )


def _refusal(head: bytes) -> PeerRefused:
    if len(head) < _REASON.size:
        raise MalformedFrame("a refusal without a reason")
    sentence = head[_REASON.size :].decode(errors="replace")
    return PeerRefused(_REASON.unpack_from(head)[0], sentence)
