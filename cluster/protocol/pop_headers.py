"""Fields of pop consumption (docs/spec/remoting.md 5): 200050–200056, 200151.

Texts such as handles and startOffsetInfo are drawn in cluster.core.pop.handles.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol.fields import named
from cluster.protocol.json_body import load

ANY_QUEUE = -1
INIT_MIN, INIT_MAX = 0, 1
ACKS_MAX = 1_000  # rows of one batch; each names one checkpoint
BITS_MAX = 10_000  # of one row: a checkpoint has 32 messages, spread over what a scan looks at
OFFSETS_MAX = 32_000  # that all rows of one batch acknowledge: 32 of each row


@dataclass(frozen=True, slots=True)
class PopRequest:
    """200050. Times in ms; `born_time` 0: now. `init_mode`: INIT_MIN or INIT_MAX."""

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: int
    poll_time: int
    born_time: int = 0
    init_mode: int = INIT_MIN
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class PopResponse:
    """Response to 200050 and 200052."""

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str = ""
    msg_offset_info: str = ""
    order_count_info: str | None = None


@dataclass(frozen=True, slots=True)
class AckRequest:
    """200051. `extra_info`: the handle; `topic`: the retry topic, where it was taken from one."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeRequest:
    """200053: hidden for `invisible_time` ms from now on."""

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int


@dataclass(frozen=True, slots=True)
class ChangeInvisibleTimeResponse:
    """Answer to 200053: the parts of the new handle."""

    pop_time: int
    invisible_time: int
    revive_qid: int


@dataclass(frozen=True, slots=True)
class PeekRequest:
    """200052."""

    topic: str
    queue_id: int
    max_msg_nums: int
    consumer_group: str


@dataclass(frozen=True, slots=True)
class NotificationRequest:
    """200054: is there a message, or tell me when there is one."""

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int = 0
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


@dataclass(frozen=True, slots=True)
class NotificationResponse:
    """Answer of 200054. `polling_full`: too many wait already, so this request did not."""

    has_msg: bool
    polling_full: bool = named("pollingFull", default=False)


@dataclass(frozen=True, slots=True)
class PollingInfoRequest:
    """200055: how many requests wait."""

    consumer_group: str
    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class PollingInfoResponse:
    """Answer of 200055: how many requests wait."""

    polling_num: int


@dataclass(frozen=True, slots=True)
class AckRow:
    """One row of a batch ack (200151): messages of one checkpoint. `marker` as in handles."""

    consumer_group: str
    topic: str
    marker: str
    start: int
    queue: int
    revive_queue: int
    pop_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]


def read_acks(body: bytes) -> list[AckRow]:
    """The rows of a batch ack; none for an empty body. Raises InvalidRequest."""
    if not body:
        return []
    try:
        bean = load(body, "a batch ack")
        rows = bean.get("acks") or []
        if len(rows) > ACKS_MAX:
            raise InvalidRequest(f"{len(rows)} rows in one batch ack; send at most {ACKS_MAX}")
        acknowledged = 0
        read = []
        for row in rows:
            read.append(_row(row, OFFSETS_MAX - acknowledged))
            acknowledged += len(read[-1].offsets)
        return read
    except RemoteProtocolError as error:
        raise InvalidRequest(f"{error}; send a JSON object") from None
    except (AttributeError, KeyError, TypeError, ValueError, binascii.Error) as error:
        raise InvalidRequest(f"a batch ack cannot be read: {error!r:.80}") from None


def _row(bean: Mapping[str, Any], offsets_max: int) -> AckRow:
    start = int(_either(bean, "so", "startOffset"))
    bits = base64.b64decode(str(_either(bean, "b", "bitSet")), validate=True)
    if len(bits) * 8 > BITS_MAX:
        raise ValueError(f"{len(bits) * 8} bits in one row; {BITS_MAX} is the limit")
    mask = int.from_bytes(bits, "little")
    if mask.bit_count() > offsets_max:
        raise InvalidRequest(f"one batch ack names more than {OFFSETS_MAX} messages; split it")
    return AckRow(
        str(_either(bean, "c", "consumerGroup")),
        str(_either(bean, "t", "topic")),
        str(_either(bean, "r", "retry")),
        start,
        int(_either(bean, "q", "queueId")),
        int(_either(bean, "rq", "reviveQueueId")),
        int(_either(bean, "pt", "popTime")),
        int(_either(bean, "it", "invisibleTime")),
        tuple(start + bit for bit in _ones(mask)),
    )


def _ones(mask: int) -> Iterator[int]:
    """Places of the bits that are set, lowest first; each costs one step, zeros cost none."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _either(bean: Mapping[str, Any], short: str, long: str) -> Any:
    return bean[short] if short in bean else bean[long]
