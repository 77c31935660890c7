"""The byte formats of a task's staged rows and of a batch's manifest. Pure; a driver needs no Arrow
to read them.

    frame      one request of rows for one queue       a task's rows are frames, back to back
                 2 bytes  size of the topic's name     4  queue    8  born time, ms
                 2        size of the broker's name    4  rows     4  size of the request
                 the two names, the request
    part       up to PART_BYTES of a task's frames, cut anywhere: one message of the staging topic
    manifest   which attempts a batch consists of, one record of the staging topic
                 4 bytes "DLS1"   4  size of the head   head: JSON
                 the rows of small tasks, which were never staged
               A large manifest is staged itself, in parts; its record then names those.

A crash may leave parts that no manifest names. They are never read, and are deleted with the log's
old files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cluster.errors import OutcomeUnknown
from cluster.protocol.json_body import MessageQueue
from pipeline.sink.stream import Request

PART_BYTES = 512 << 10  # a message of the staging topic; brokers take 4 MiB
#: Fewer bytes of rows travel in the task's commit message: a small batch is written twice, not
#: three times.
INLINE_BYTES_MAX = 128 << 10
RECORD_BYTES_MAX = 1 << 20  # a larger manifest is staged in parts
_FRAME = struct.Struct(">HHiiqi")
_HEAD = struct.Struct(">4sI")
_MAGIC = b"DLS1"


class Place(NamedTuple):
    """A message of the staging topic."""

    broker: str
    queue_id: int
    offset: int


class Parcel(NamedTuple):
    """One request of rows for one queue."""

    queue: MessageQueue
    request: Request


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of one attempt of a task; it travels in the task's commit message.

    Attributes:
        partition: number of the task.
        attempt: random, for each attempt.
        rows: number of rows for each queue, by name.
        places: messages with the attempt's frames, in order.
        inline: the frames themselves, when they are few; then there are no places.
        digest: of the rows, their queues and their order.
    """

    partition: int
    attempt: str
    rows: dict[str, int]
    places: tuple[Place, ...] = ()
    inline: bytes = field(default=b"", repr=False)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The attempts that make up a batch. `made_ms`: time of its making, by its driver's clock."""

    query: str
    batch: int
    made_ms: int
    tasks: tuple[Staged, ...]


def encode_frame(queue: MessageQueue, request: Request) -> bytes:
    """The frame of one request."""
    topic, broker = queue.topic.encode(), queue.broker_name.encode()
    sizes = len(topic), len(broker), queue.queue_id, request.count, request.born_ms
    return b"".join((_FRAME.pack(*sizes, len(request.body)), topic, broker, request.body))


class Frames:
    """Decodes a task's frames, from pieces of any size, into parcels."""

    def __init__(self) -> None:
        self._left = b""

    def feed(self, data: bytes) -> Iterator[Parcel]:
        """The parcels that are whole by now."""
        data = self._left + data if self._left else data
        at = 0
        while len(data) - at >= _FRAME.size:
            topic, broker, queue_id, count, born_ms, size = _FRAME.unpack_from(data, at)
            names_at = at + _FRAME.size
            body_at = names_at + topic + broker
            if body_at + size > len(data):
                break
            queue = MessageQueue(
                data[names_at : names_at + topic].decode(),
                data[names_at + topic : body_at].decode(),
                queue_id,
            )
            yield Parcel(queue, Request(data[body_at : body_at + size], count, born_ms))
            at = body_at + size
        self._left = data[at:]

    def end(self) -> None:
        """Check that the bytes ended with a whole frame. Raises OutcomeUnknown if not."""
        if self._left:
            raise OutcomeUnknown(
                "the staged rows of a task are cut off; nothing more of the batch is published: "
                "take out its rows by hand, then start with a new checkpoint"
            )


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest; equal manifests give equal bytes."""
    tasks = [
        {
            "partition": task.partition,
            "attempt": task.attempt,
            "rows": task.rows,
            "places": [list(place) for place in task.places],
            "inline": len(task.inline),
            "digest": task.digest,
        }
        for task in manifest.tasks
    ]
    head = {
        "query": manifest.query,
        "batch": manifest.batch,
        "madeMs": manifest.made_ms,
        "tasks": tasks,
    }
    return _joined(head, b"".join(task.inline for task in manifest.tasks))


def encode_pointer(places: Sequence[Place]) -> bytes:
    """The record of a manifest that was staged in parts."""
    return _joined({"parts": [list(place) for place in places]}, b"")


def pointer_of(record: bytes) -> list[Place] | None:
    """Places of the parts of a staged manifest; None when the record is the manifest itself."""
    parts = _split(record)[0].get("parts")
    return None if parts is None else [Place(*part) for part in parts]


def decode_manifest(record: bytes) -> Manifest:
    """The manifest in a record. Raises OutcomeUnknown if it is none of this version."""
    head, tail = _split(record)
    tasks, at = [], 0
    for task in head["tasks"]:
        end = at + task["inline"]
        places = tuple(Place(*place) for place in task["places"])
        tasks.append(
            Staged(
                task["partition"],
                task["attempt"],
                task["rows"],
                places,
                tail[at:end],
                task["digest"],
            )
        )
        at = end
    return Manifest(head["query"], head["batch"], head["madeMs"], tuple(tasks))


def parts_of(data: bytes) -> Iterator[bytes]:
    """Cuts the bytes into parts that fit into one staged message each."""
    for at in range(0, len(data), PART_BYTES):
        yield data[at : at + PART_BYTES]


def _joined(head: dict[str, Any], tail: bytes) -> bytes:
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
    return b"".join((_HEAD.pack(_MAGIC, len(text)), text, tail))


def _split(record: bytes) -> tuple[dict[str, Any], bytes]:
    if len(record) >= _HEAD.size:
        magic, size = _HEAD.unpack_from(record)
        if magic == _MAGIC and len(record) >= _HEAD.size + size:
            head: dict[str, Any] = json.loads(record[_HEAD.size : _HEAD.size + size])
            return head, record[_HEAD.size + size :]
    raise OutcomeUnknown(
        "a record of the staging topic is no manifest that this version understands; use the "
        "release that wrote it, and let nothing else write to that topic"
    )
