"""The Raft group of one simulated node: configurations as log entries, and the roster of peers that
it accepts.

    body    magic "CF" 2 | zeros 6 | stamp 8 | text (dledger/membership/members.py)

File and roster are the shipping ones; only the body is not a RocketMQ message here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from chaos.sim.disk import SimDisk
from chaos.sim.network import Pipe
from chaos.sim.storage import FOLDER, STAGING, Storage
from chaos.sim.swarm import LogOptions
from commitlog.files.system import Buffer
from dledger.core.config import CoreConfig
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.types import NodeId, Term
from dledger.durable.configurations import Codec, ConfigurationFile
from dledger.membership.handshake import Member
from dledger.membership.incarnations import KnownPeers
from dledger.membership.members import decode_configuration, encode_configuration
from dledger.membership.roster import ANSWER_TYPES, NodeIncarnation, Roster
from dledger.wire.frames import Frame, FrameDecoder, FrameType

_HEAD = struct.Struct(">2sHIq")
_MAGIC = b"CF"
#: Types of frames that are not heard from a member.
NOTHING: frozenset[FrameType] = frozenset()


def core_config(node: NodeId, voters: tuple[NodeId, ...], log: LogOptions) -> CoreConfig:
    """The rules' settings of one node."""
    return CoreConfig(
        node,
        voters,
        heartbeat_interval=log.heartbeat,
        election_timeout_min=log.election_min,
        election_timeout_max=log.election_max,
        frame_bytes_max=log.frame_bytes_max,
        snapshot_chunk_bytes_max=log.frame_bytes_max,
        window_bytes_max=max(log.frame_bytes_max, 16 << 10),
        window_frames_max=log.window_frames_max,
    )


#: By pipe: of which of its connections, and the decoder of that.
Decoders = dict[Pipe, tuple[int, FrameDecoder]]


def decoder_of(decoders: Decoders, pipe: Pipe) -> FrameDecoder:
    """One per connection."""
    known = decoders.get(pipe)
    if known is not None and known[0] == pipe.epoch:
        return known[1]
    decoder = FrameDecoder()
    decoders[pipe] = (pipe.epoch, decoder)
    return decoder


def frames_of(decoder: FrameDecoder, data: bytes) -> Iterator[Frame]:
    """Whole frames after `data` came, in pieces of the decoder's buffer. Raises MalformedFrame."""
    while data:
        buffer = decoder.get_buffer()
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        yield from decoder.frames(size)


class SimGroup:
    """`dledger.replica.ports.Configurations` of one process, and its roster."""

    def __init__(self, disk: SimDisk, storage: Storage, me: NodeIncarnation) -> None:
        self._file = ConfigurationFile(disk, FOLDER, storage.log, _CODEC, staging=STAGING)
        self.roster = Roster(KnownPeers(disk, FOLDER), me)

    @property
    def entries(self) -> Sequence[ConfigurationEntry]:
        """Configurations that the log held when it was opened, oldest first; `note` adds none."""
        return self._file.entries

    def note(self, entry: ConfigurationEntry, term: Term) -> None:
        """Saves a configuration that is about to be written, durably. Raises OSError."""
        self._file.note(entry, term)

    def encode(self, configuration: Configuration) -> Buffer:
        """The body of a configuration entry: its magic tells it from values and no-ops."""
        return _HEAD.pack(_MAGIC, 0, 0, 0) + encode_configuration(configuration)

    def decode(self, body: Buffer) -> Configuration | None:
        """The configuration in an entry's body; None for a value or no-op. Raises ValueError."""
        return _decode(body)

    def unheard(self, sender: Member) -> frozenset[FrameType] | None:
        """Which frames of this incarnation of `sender` are dropped; None: all, it is not let in."""
        roster, node, incarnation = self.roster, sender.node_id, sender.incarnation
        if roster.knows(node, incarnation):
            return frozenset()
        welcome = node in roster and roster.vouch(node, incarnation) is None
        return ANSWER_TYPES if welcome or roster.strangers(sender) else None


def _decode(body: Buffer) -> Configuration | None:
    if body[:2] != _MAGIC:
        return None
    return decode_configuration(bytes(body[_HEAD.size :]))


_CODEC = Codec(_decode, encode_configuration, decode_configuration)
