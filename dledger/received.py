"""A range of the log as a peer sent it: for the storage to check, and for the rules when it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from commitlog.files import Buffer
from commitlog.record import HEADER_SIZE
from dledger.core.configuration import Configuration, ConfigurationEntry
from dledger.core.messages import AppendEntries
from dledger.errors import RangeRejected
from dledger.storage.check import SLOT
from dledger.storage.port import ReceivedRange, VerifiedRange


def received(message: AppendEntries) -> ReceivedRange:
    """Its bytes as the storage checks them; a copy, because the log keeps it."""
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
