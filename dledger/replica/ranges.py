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
from dledger.log.port import LogStore, ReceivedRange, VerifiedRange


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


class RangeMessages:
    """Ranges of the log as messages of one leader; entries that change the group are flagged (R20).

    Followers that keep pace are sent one and the same.
    """

    def __init__(self, node: RaftNode, log: LogStore) -> None:
        self._node, self._log = node, log
        self._sent: tuple[object, AppendEntries] | None = None

    def message(self, effect: SendAppend) -> AppendEntries:
        """The range that `effect` asks for. Raises StoreDamaged."""
        last_max = effect.prev.index if effect.probe else effect.last_max
        end, early = self._log.last, effect.when_written
        wanted = (effect.prev, last_max, effect.size_max, effect.commit, effect.term, end, early)
        if self._sent is not None and wanted == self._sent[0]:
            return self._sent[1]
        node, first = self._node, Index(effect.prev.index + 1)
        part = self._log.read_range(first, last_max, effect.size_max)
        message = AppendEntries(
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
            node.configurations_in(first, part.last),
            early,
        )
        self._sent = (wanted, message)
        return message
