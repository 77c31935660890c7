"""Messages that a consumer failed on: retried later, or kept apart (docs/spec/store.md 7.6).

message, group ─► again: %RETRY%group after level 3 + times tried (10 s, 30 s, … 2 h)
               └► dead:  %DLQ%group, once it was tried often enough, or the client says so
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cluster.core.delay.copies import Pieces
from cluster.core.topics import DLQ_PREFIX, RETRY_PREFIX
from commitlog.records import property_names as names
from commitlog.records.properties import find_property, with_property

FIRST_LEVEL: Final = 3
RETRY_TIMES_MAX: Final = 16  # RocketMQ's retryMaxTimes


class Retry(NamedTuple):
    """Where the message goes: at once when `level` is 0, else after that level's delay."""

    topic: str
    level: int
    pieces: Pieces

    @property
    def is_dead(self) -> bool:
        """True if it goes to the group's dead-letter topic."""
        return self.topic.startswith(DLQ_PREFIX)


def times_max(group: Mapping[str, Any], asked: int | None) -> int:
    """How often a message of the group may come again; the client may ask for its own number."""
    if asked is not None and asked >= 0:
        return asked
    return int(group.get("retryMaxTimes", RETRY_TIMES_MAX))


def plan_retry(
    pieces: Pieces, group: str, delay_level: int, retry_times_max: int, origin_id: str
) -> Retry:
    """The plan for a message that comes back (36). `origin_id`: its message id.

    `delay_level` of the client: 0 the broker's own, below 0: do not try again.
    """
    properties = pieces.properties
    for name, value in ((names.RETRY_TOPIC, pieces.topic), (names.ORIGIN_MESSAGE_ID,
                                                            origin_id.encode())):  # fmt: skip
        if find_property(properties, name.encode()) is None:
            properties = with_property(properties, name.encode(), value)
    properties = with_property(properties, names.WAIT.encode(), b"false")
    tried = pieces.reconsume_times
    again = pieces._replace(properties=properties, reconsume_times=tried + 1)
    if tried >= retry_times_max or delay_level < 0:
        return Retry(DLQ_PREFIX + group, 0, dead_letter(again))
    return Retry(RETRY_PREFIX + group, delay_level or FIRST_LEVEL + tried, again)


def dead_letter(pieces: Pieces) -> Pieces:
    """The message with the properties of a dead letter."""
    return pieces._replace(properties=dead_properties(pieces.properties))


def dead_properties(properties: bytes) -> bytes:
    """Not delayed any more, and where it came from, as far as that is known."""
    for source, name in (
        (names.RETRY_TOPIC, names.DLQ_ORIGIN_TOPIC),
        (names.ORIGIN_MESSAGE_ID, names.DLQ_ORIGIN_MESSAGE_ID),
    ):
        value = find_property(properties, source.encode())
        if value is not None:
            properties = with_property(properties, name.encode(), value)
    return with_property(properties, names.DELAY.encode(), b"0")
