"""Reading and writing JSON bodies: no whitespace out; in, the two shapes that are not JSON.

Stock servers write a `Map<Long, …>` with bare numbers as keys (`{0:"a:1"}`) and a
`Map<MessageQueue, …>` with objects as keys (`{{"queueId":0,…}:{…}}`). See docs/spec/remoting.md 4.1
for which client reads which.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from cluster.errors import RemoteProtocolError

#: Values in the body of one request, those of nested lists counted: 20 ms of work at the most. The
#: largest that stock clients send (a heartbeat of a thousand subscriptions) has some 10,000.
ITEMS_MAX = 20_000
#: The same of what a server answers, or a broker registers: 20,000 topics with all their fields.
ANSWER_ITEMS_MAX = 4_000_000
#: Rows of one list that each cost a record of the log, or a lock.
ROWS_COUNT_MAX = 1_000
#: Bytes of a value, on average: few values may be as long as many, and are read in no less time.
ITEM_SIZE_MAX = 100

_BARE_KEY = re.compile(rb"([{,])(-?\d+):")


class MessageQueue(NamedTuple):
    """One queue of one broker name. Sorts as RocketMQ sorts: topic, broker name, queue id."""

    topic: str
    broker_name: str
    queue_id: int

    def to_json(self) -> dict[str, Any]:
        """RocketMQ's bean."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @staticmethod
    def from_json(bean: Mapping[str, Any]) -> MessageQueue:
        """Inverse of `to_json`."""
        return MessageQueue(str(bean["topic"]), str(bean["brokerName"]), int(bean["queueId"]))


def dump(value: Any) -> bytes:
    """JSON without whitespace."""
    return orjson.dumps(value)


ABSENT = "absent"
"""In place of a digest: there is no such row."""


def row_digest(row: Mapping[str, Any]) -> str:
    """The same for equal JSON objects, in any order of their fields."""
    return hashlib.sha256(orjson.dumps(row, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def load(body: bytes, what: str, *, items_max: int = ITEMS_MAX) -> Any:
    """The value of a JSON body, which may have bare numbers as keys.

    Each value but the first of its list or object follows a comma, and each list or object begins
    with a bracket, so counting those bounds the values before any is made. Commas in texts count
    as well: the bound is far above what clients send.

    Raises:
        RemoteProtocolError: it is neither, or holds more than `items_max` values or ITEM_SIZE_MAX
            times as many bytes; `what` names it.
    """
    check_size(body, what, items_max * ITEM_SIZE_MAX)
    if len(body) > items_max:
        items = body.count(b",") + body.count(b"{") + body.count(b"[")
        if items > items_max:
            raise RemoteProtocolError(
                f"the body of {what} has some {items} values, the limit is {items_max}; split it"
            )
    try:
        return orjson.loads(body)
    except ValueError:
        try:
            return orjson.loads(_BARE_KEY.sub(rb'\1"\2":', body))
        except ValueError as error:
            raise RemoteProtocolError(f"the body of {what} is not JSON: {error}") from error


def read_answer(body: bytes, what: str) -> Any:
    """`load` of a server's answer, which may be as long as a cluster has topics and groups."""
    return load(body, what, items_max=ANSWER_ITEMS_MAX)


def check_size(body: bytes, what: str, size_max: int = ITEMS_MAX * ITEM_SIZE_MAX) -> None:
    """Raises RemoteProtocolError when `body` has more bytes; the error names it by the second
    argument.
    """
    if len(body) > size_max:
        raise RemoteProtocolError(
            f"the body of {what} has {len(body)} bytes, the limit is {size_max}; split it"
        )


def dump_queue_map(entries: Iterable[tuple[MessageQueue, Any]]) -> bytes:
    """A map with queues as keys, in the object-key form that Java and Go read."""
    pairs = [dump(queue.to_json()) + b":" + dump(value) for queue, value in entries]
    return b"{" + b",".join(pairs) + b"}"


def load_queue_map(body: bytes, name: str) -> dict[MessageQueue, Any]:
    """The map under the key `name` of `body`, written with objects or with texts as keys.

    Raises:
        RemoteProtocolError: the body has another shape.
    """
    text = body.decode("utf-8", "replace")
    try:
        value = orjson.loads(_OBJECT_KEY.sub(_quote, text))
        return {MessageQueue.from_json(orjson.loads(key)): row for key, row in value[name].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RemoteProtocolError(f"the body has no map of queues {name!r}: {error!r}") from error


_OBJECT_KEY = re.compile(r"([{,])(\{[^{}]*\}):")


def _quote(match: re.Match[str]) -> str:
    return f"{match[1]}{orjson.dumps(match[2]).decode()}:"
