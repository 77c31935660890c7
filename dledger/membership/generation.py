"""Generations: two peers exchange them to detect an older copy of a folder. Sans-IO.

    GENERATION    own number 8 | own token 8 | number 8 | token 8
                  the sender's generation; the last of the receiver's that the sender has met

A folder draws a new generation at each start and, while its node promises anything, every few
seconds (membership/generations.py). Peers remember the last one that they met. A folder that lacks
a generation which a peer has met is an older copy of itself, put back from a backup or started on
another machine: it forgot votes and entries that it had promised, as a wiped one did (R6, S7,
docs/spec/chaos.md 3.2, kind 17), but its incarnation does not show that.

The folder that is told of a generation it lacks is the one that judges, since it alone knows its
whole past; it stops for good, before anything that it or the peer has to say is heard.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from dledger.core.types import NodeId
from dledger.errors import MalformedFrame
from dledger.wire.frames import Frame, FrameType, pack_frame

_FRAME = struct.Struct(">QQQQ")


class Generation(NamedTuple):
    """`number` counts up over the folder's starts; `token` was drawn at the start that it is of."""

    number: int = 0
    token: int = 0


NO_GENERATION = Generation()


class Told(NamedTuple):
    """`own`: the sender's. `met`: the last of the receiver's that the sender met."""

    own: Generation
    met: Generation


class Witness(Protocol):
    """The memory of generations that a handshake uses (membership/generations.py)."""

    @property
    def current(self) -> Generation:
        """The generation of this node's folder on its disk; NO_GENERATION if not writable."""
        ...

    def met(self, peer: NodeId, incarnation: int) -> Generation:
        """The last one of `peer` in this incarnation."""
        ...

    def judge(self, peer: NodeId, met: Generation) -> str | None:
        """None if our folder has the generation that the peer met; else why it is an older copy."""
        ...

    def remember(self, peer: NodeId, incarnation: int, generation: Generation) -> None:
        """Remember `generation` of `peer`, which did not contradict the one known before."""
        ...


def frame_for(witness: Witness, peer: NodeId, incarnation: int) -> bytes:
    """The GENERATION frame to send to `peer`."""
    head = _FRAME.pack(*witness.current, *witness.met(peer, incarnation))
    return pack_frame(FrameType.GENERATION, head)


def read_told(frame: Frame) -> Told:
    """Raises MalformedFrame."""
    if frame.type is not FrameType.GENERATION or len(frame.head) != _FRAME.size:
        raise MalformedFrame("a peer did not say which generations it has and knows")
    number, token, met_number, met_token = _FRAME.unpack(frame.head)
    return Told(Generation(number, token), Generation(met_number, met_token))
