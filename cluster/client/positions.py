"""Where the positions of a consumer are kept: by the brokers, in a file of one's own, or nowhere.

    GroupPositions    the group's, in the brokers' log: members share them
    FilePositions     of one member that broadcasts, in a file on its machine
    NoPositions       of a reader, which begins anew each time

A position is the queue offset that is read next.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

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

from .repeating import ask_leader

if TYPE_CHECKING:
    from cluster.client.client import Client


class Positions(Protocol):
    """Of one consumer."""

    async def find(self, queue: MessageQueue) -> int | None:
        """The position in a queue; None where there is none yet. Raises ClusterError."""
        ...

    async def store(self, queue: MessageQueue, position: int) -> None:
        """Keep a position. Raises ClusterError when it may not be kept."""
        ...


class GroupPositions:
    """The group's, asked of and told to who leads the queue's broker name."""

    def __init__(self, client: Client, group: str) -> None:
        self._client, self._group = client, group

    async def find(self, queue: MessageQueue) -> int | None:
        request = QueryConsumerOffsetRequest(
            self._group, queue.topic, queue.queue_id, False, queue.broker_name
        )
        place = queue.broker_name, queue.topic
        code = RequestCode.QUERY_CONSUMER_OFFSET
        try:
            answer = await ask_leader(self._client, *place, code, encode(request))
        except NotFound:
            return None
        return decode(OffsetResponse, answer.ext).offset

    async def store(self, queue: MessageQueue, position: int) -> None:
        request = UpdateConsumerOffsetRequest(
            self._group, queue.topic, queue.queue_id, position, queue.broker_name
        )
        place = queue.broker_name, queue.topic
        await ask_leader(self._client, *place, RequestCode.UPDATE_CONSUMER_OFFSET, encode(request))


class NoPositions:
    """Nothing is kept."""

    async def find(self, queue: MessageQueue) -> int | None:
        return None

    async def store(self, queue: MessageQueue, position: int) -> None:
        return


class FilePositions:
    """A JSON file, written anew beside itself and moved over it, so that it is whole at any time.

        {"orders@broker-a@3": 17, ...}

    It is not synced: after a power failure some messages are shown again.
    """

    def __init__(self, file: Path) -> None:
        """Raises InvalidRequest: the file is there and is not one of these."""
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
        return self._known.get(_name(queue))

    async def store(self, queue: MessageQueue, position: int) -> None:
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
