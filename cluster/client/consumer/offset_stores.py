"""Offsets of a consumer: how much of a queue it has acknowledged, and where that is kept.

    GroupOffsetStore    the group's offsets, in the brokers' log: members share them
    FileOffsetStore     those of one broadcasting member, in a file on its machine
    NoOffsetStore       none: a reader begins anew each time

A stored offset is that of the message that is read next. `AckTracker` computes it: the first
message that was handed out and is not acknowledged.

    handed out   5 6 7 8      acknowledged 5 6 8      offset 7: after a restart 7 and 8 come again
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Protocol

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
    decode,
    encode,
)
from cluster.protocol.json_body import MessageQueue


class OffsetStore(Protocol):
    """The stored offsets of one consumer."""

    async def find(self, queue: MessageQueue) -> int | None:
        """The offset stored for `queue`; None if there is none yet. Raises ClusterError."""
        ...

    async def store(self, queue: MessageQueue, position: int) -> None:
        """Store an offset. Raises ClusterError if it may not be stored."""
        ...


class GroupOffsetStore:
    """The group's offsets, kept by the leader of the queue's broker name."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance, self._group = instance, group

    async def find(self, queue: MessageQueue) -> int | None:
        """As in `OffsetStore`."""
        request = QueryConsumerOffsetRequest(
            self._group, queue.topic, queue.queue_id, False, queue.broker_name
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            answer = await ask_leader(
                self._instance, queue.broker_name, queue.topic, code, encode(request)
            )
        except NotFound:
            return None
        return decode(OffsetResponse, answer.ext).offset

    async def store(self, queue: MessageQueue, position: int) -> None:
        """As in `OffsetStore`."""
        request = UpdateConsumerOffsetRequest(
            self._group, queue.topic, queue.queue_id, position, queue.broker_name
        )
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await ask_leader(self._instance, queue.broker_name, queue.topic, code, encode(request))


class NoOffsetStore:
    """Stores no offset."""

    async def find(self, queue: MessageQueue) -> int | None:
        """As in `OffsetStore`."""
        return None

    async def store(self, queue: MessageQueue, position: int) -> None:
        """As in `OffsetStore`."""
        return


class FileOffsetStore:
    """A JSON file of offsets.

        {"orders@broker-a@3": 17, ...}

    Each change writes a new file and renames it over the old one, so the file is whole at any time.
    It is not synced: after a power failure some messages come again.
    """

    def __init__(self, file: Path) -> None:
        """Raises InvalidRequest if the file exists and cannot be read as offsets."""
        self._file = file
        self._known: dict[str, int] = {}
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InvalidRequest(f"the positions in {file} cannot be read: {error}") from error
        try:
            self._known = {str(name): int(at) for name, at in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidRequest(
                f"{file} is no file of positions ({error}); name another one, or remove it to "
                "begin where the settings say"
            ) from error

    async def find(self, queue: MessageQueue) -> int | None:
        """As in `OffsetStore`."""
        return self._known.get(_name(queue))

    async def store(self, queue: MessageQueue, position: int) -> None:
        """As in `OffsetStore`."""
        self._known[_name(queue)] = position
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(self._known, sort_keys=True), encoding="utf-8")
            beside.replace(self._file)
        except OSError as error:
            raise InvalidRequest(f"the positions cannot be written: {error}") from error


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic}@{queue.broker_name}@{queue.queue_id}"


class AckTracker:
    """Acknowledgements of one queue. `start`: the first queue offset to be handed out."""

    def __init__(self, start: int) -> None:
        self._open: dict[int, None] = {}
        self._after = start

    @property
    def position(self) -> int:
        """The offset at which the group would go on."""
        return next(iter(self._open), self._after)

    def handed_out(self, queue_offset: int) -> None:
        """Note that a message was given to the user. Messages come in order."""
        assert queue_offset >= self._after, "messages of a queue are handed out in order"
        self._open[queue_offset] = None
        self._after = queue_offset + 1

    def all_handed_out(self, queue_offsets: list[int]) -> None:
        """Note that messages were given to the user together; `queue_offsets` ascend."""
        assert queue_offsets[0] >= self._after, "messages of a queue are handed out in order"
        self._open.update(dict.fromkeys(queue_offsets))
        self._after = queue_offsets[-1] + 1

    def acked(self, queue_offset: int) -> None:
        """Note that the user acknowledged a message. A second call has no effect."""
        self._open.pop(queue_offset, None)

    def taken_back(self, queue_offset: int) -> None:
        """Note that the last message handed out will be handed out again."""
        assert next(reversed(self._open), None) == queue_offset, "only the last one comes back"
        del self._open[queue_offset]
        self._after = queue_offset

    def skipped_to(self, queue_offset: int) -> None:
        """Note that no message between the last one handed out and this offset is for the group."""
        self._after = max(self._after, queue_offset)
