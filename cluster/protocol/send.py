"""Send requests (310, 320; 10 by field names) and their answers, for every client.

Nearly all of a send header is the same from message to message: group, topic, queue, flags. Those
fields are read once into a `SendTemplate`, and later headers are recognised by them.
`send_own.py` does the same by comparing bytes, for our own producers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from cluster.errors import InvalidRequest
from cluster.protocol.batch import BATCH_COUNT_MAX
from cluster.protocol.codes import VERSION_OWN, RequestCode
from cluster.protocol.fields import read_bool
from cluster.protocol.frames import EMPTY, Frame

TEMPLATES_COUNT_MAX: Final = 4096
"""Send templates kept per connection: one per (group, topic, queue) that it sends to."""

PROPERTIES_SIZE_MAX: Final = 32_767
"""The record stores the size as a signed short."""


@dataclass(frozen=True, slots=True, eq=False)
class SendTemplate:
    """The constant part of all sends of one producer to one queue.

    Compared by identity, so that a broker may key its own per-queue state by it. `queue_id` < 0:
    the broker chooses. `language`, `version`, `kind`: the requester's, for the answer.
    `durability`: the level at which our own producers want to be answered; None: they do not say.
    """

    code: int
    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_count: int
    queue_id: int
    sys_flag: int
    flag: int
    reconsume_times: int
    unit_mode: bool
    max_reconsume_times: int | None
    is_batch: bool
    broker_name: str | None
    language: str
    version: int
    kind: int
    durability: str | None = None

    @property
    def is_own(self) -> bool:
        """Does one of our own clients ask?"""
        return self.version >= VERSION_OWN


class SendRequest(NamedTuple):
    """One send; `body` is the message's, or for a batch (320) the items back to back.

    `sender`: access key of the account that sends it, as a broker found out; "" for senders without
    one. `signed`: the frame as it came, where there are accounts; code that serves it later, or on
    another node, checks its signature again.
    """

    opaque: int
    template: SendTemplate
    born_timestamp_ms: int
    properties: bytes
    body: bytes
    flag: int = 0
    sender: str = ""
    signed: Frame | None = None

    @property
    def is_oneway(self) -> bool:
        """Must it stay unanswered?"""
        return bool(self.flag & 2)


_V2_CONSTANT = itemgetter("a", "b", "c", "d", "e", "f", "h", "j", "k", "m", "n")
_V1_OF_V2: Final = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch", "n": "bname",
}  # fmt: skip
"""Single letter of 310, 320 and 325 → field name of 10 and 324."""

_REQUIRED: Final = "abcdefgh"
_NUMBERS: Final = "defghjl"

SEND_CODES: Final = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    }
)
"""Messages into the log. Replies (324, 325) have the same fields and another way."""
_NAMED_CODES: Final = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE})


class SendReader:
    """Frame → SendRequest, remembering templates; one per connection."""

    def __init__(self) -> None:
        self._templates: dict[tuple[object, ...], SendTemplate] = {}

    def read(self, frame: Frame) -> SendRequest:
        """The send request in a frame with one of `SEND_CODES`, or the reply in one with 324, 325.

        Raises:
            InvalidRequest: a required field is missing or a number cannot be read.
        """
        ext = frame.ext
        if frame.code in _NAMED_CODES:
            ext = {letter: ext[name] for letter, name in _V1_OF_V2.items() if name in ext}
        try:
            try:
                constant = _V2_CONSTANT(ext)
            except KeyError:  # an optional field is left out, or a required one is missing
                template = template_of(frame, ext)
            else:
                key = (
                    frame.code,
                    frame.version,
                    frame.language,
                    frame.kind,
                    ext.get("l"),
                    ext.get("durability"),
                )
                template = self._templates.get(key + constant) or self._learn(
                    key + constant, frame, ext
                )
            return SendRequest(
                frame.opaque,
                template,
                int(ext["g"]),
                ext.get("i", "").encode(),
                frame.body,
                frame.flag,
            )
        except (KeyError, ValueError):
            raise InvalidRequest(_what_is_wrong(frame, ext)) from None

    def _learn(self, key: tuple[object, ...], frame: Frame, ext: Mapping[str, str]) -> SendTemplate:
        if len(self._templates) >= TEMPLATES_COUNT_MAX:
            self._templates.clear()
        template = self._templates[key] = template_of(frame, ext)
        return template


def template_of(frame: Frame, ext: Mapping[str, str]) -> SendTemplate:
    """The template of a send with fields under single letters.

    Raises KeyError for a missing field, ValueError for a bad number.
    """
    times_max = ext.get("l")
    return SendTemplate(
        code=frame.code,
        producer_group=ext["a"],
        topic=ext["b"],
        default_topic=ext["c"],
        default_topic_queue_count=int(ext["d"]),
        queue_id=int(ext["e"]),
        sys_flag=int(ext["f"]),
        flag=int(ext["h"]),
        reconsume_times=int(ext.get("j") or 0),
        unit_mode=read_bool(ext.get("k", "false")),
        max_reconsume_times=int(times_max) if times_max else None,
        is_batch=frame.code == RequestCode.SEND_BATCH_MESSAGE or read_bool(ext.get("m", "")),
        broker_name=ext.get("n") or None,
        language=frame.language,
        version=frame.version,
        kind=frame.kind,
        durability=ext.get("durability"),
    )


def _what_is_wrong(frame: Frame, ext: Mapping[str, str]) -> str:
    """A sentence about a send that could not be read; `ext` has its fields under their letters."""
    is_named = frame.code in _NAMED_CODES
    names = {v2: v1 if is_named else f"{v2} ({v1})" for v2, v1 in _V1_OF_V2.items()}
    for letter in _REQUIRED:
        if letter not in ext:
            return f"a send request lacks its field {names[letter]}; send it"
    for letter in _NUMBERS:
        text = ext.get(letter, "")
        try:
            int(text or ("" if letter in _REQUIRED else "0"))
        except ValueError:
            wrong = f"{names[letter]} is {text[:40]!r}"
            return f"a send request's field {wrong} and must be a whole number"
    return "a send request cannot be read: a field is no text"


def to_frame(request: SendRequest) -> Frame:
    """The request as a frame for forwarding to the leader: the one that it came in, where it is
    signed; else one with code 310 or 320.
    """
    if request.signed is not None:
        return request.signed
    template = request.template
    ext = {
        "a": template.producer_group,
        "b": template.topic,
        "c": template.default_topic,
        "d": str(template.default_topic_queue_count),
        "e": str(template.queue_id),
        "f": str(template.sys_flag),
        "h": str(template.flag),
        "j": str(template.reconsume_times),
        "k": "true" if template.unit_mode else "false",
        "m": "true" if template.is_batch else "false",
        "n": template.broker_name or "",
        "g": f"{request.born_timestamp_ms:013d}",
        "i": request.properties.decode("utf-8", "replace"),
    }
    if template.max_reconsume_times is not None:
        ext["l"] = str(template.max_reconsume_times)
    if template.durability is not None:
        ext["durability"] = template.durability
    code = 310 if template.code == 10 else template.code
    return Frame(
        code,
        request.opaque,
        ext,
        request.body,
        request.flag,
        None,
        template.language,
        template.version,
        template.kind,
    )


def message_count(frame: Frame) -> int:
    """Messages of a frame with one of `SEND_CODES`; for a batch, as its items' sizes say.

    Items that are none end the count: the send is refused when it is taken.
    """
    said = (frame.ext or EMPTY).get("batch" if frame.code in _NAMED_CODES else "m", "")
    if frame.code != RequestCode.SEND_BATCH_MESSAGE and not read_bool(said):
        return 1
    at = count = 0
    while at + 4 <= len(frame.body) and count < BATCH_COUNT_MAX:
        size = int.from_bytes(frame.body[at : at + 4], "big")
        if size < 4:
            break
        at, count = at + size, count + 1
    return max(count, 1)
