"""A range of the log as a peer sent it: for the storage to check, and for the rules when it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from commitlog.files.system import Buffer
from commitlog.records.record import HEADER_SIZE
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.effects import SendAppend
from dledger.core.messages import AppendEntries
from dledger.core.node import RaftNode
from dledger.core.types import Index
from dledger.errors import RangeRejected
from dledger.log.check import SLOT
from dledger.log.port import LogRange, ReceivedRange, VerifiedRange


def received(message: AppendEntries) -> ReceivedRange:
    """A message's entries in the storage's form; copies the bytes, because the log keeps them."""
    return ReceivedRange(
        message.prev,
        message.prev_chain_crc,
        message.last,
        message.runs,
        message.position,
        message.size,
        tuple(map(bytes, message.data or ())),  # the receive buffer is used again
    )


def with_data(message: AppendEntries, data: Any) -> AppendEntries:
    """The same message with other data; `dataclasses.replace` takes twice as long."""
    return AppendEntries(
        message.sender,
        message.term,
        message.prev,
        message.last,
        message.commit,
        message.runs,
        message.position,
        message.prev_chain_crc,
        message.size,
        data,
        message.configurations,
        message.when_written,
    )


def read_configurations(
    message: AppendEntries,
    verified: VerifiedRange,
    decode: Callable[[Buffer], Configuration | None],
) -> tuple[ConfigurationEntry, ...]:
    """The bodies of the entries that the frame flags (R20). Raises RangeRejected."""
    found = []
    for entry in message.configurations:
        packed = verified.slots[entry.index - message.prev.index - 1]
        _, position, size, _, _ = SLOT.unpack(packed)
        at = position - verified.source.position
        try:
            configuration = decode(verified.data[at + HEADER_SIZE : at + size])
        except ValueError as error:
            raise RangeRejected(f"entry {entry.index} cannot be read: {error}") from error
        if configuration is None:
            raise RangeRejected(f"entry {entry.index} is flagged and is no configuration")
        found.append(ConfigurationEntry(entry.index, configuration))
    return tuple(found)


def append_of(node: RaftNode, effect: SendAppend, part: LogRange) -> AppendEntries:
    """`part` was read for `effect`; entries that change the group are flagged (R20)."""
    return AppendEntries(
        node.node_id,
        effect.term,
        effect.prev,
        part.last,
        effect.commit,
        part.runs,
        part.position,
        part.prev_chain_crc,
        part.size,
        part.parts,
        node.configurations_in(Index(effect.prev.index + 1), part.last),
        effect.when_written,
    )
