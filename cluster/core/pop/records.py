"""Records of the revive log: pops, acknowledgements, longer invisible times (RocketMQ's shapes).

    TAGS    body (JSON, sorted keys)
    ck      {"bm":0,"bn":broker,"c":group,"d":[offset - start, …],"fr":from,"it":ms,"n":count,
             "nx":next,"pt":ms,"q":queue,"so":start,"t":topic}
    bAck    {"aol":[offset, …],"ap":address of the ck,"bn","c","pt","q","so","t"}
    oPop    {"at":attempt,"c","fr","it","nx","o":[offset, …],"pt","q","t"}          ordered pops,
    oAck    {"ao":offset,"c","pt","q","t"}                                          ours
    oVis    {"ao":offset,"c","pt","q","t","vt":ms}

"fr", "nx" and "ap" are ours, and RocketMQ ignores them: the group's offset goes from "fr" (-1: none
was known) to "nx" (-1: it stays). A record without them is RocketMQ's own, of an imported store: it
is left alone, since who revived it is not known. An ordered ack and one that hides a message for
longer are small; a crash leaves each whole or not at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

NOT_KNOWN = -1
STAYS = -1


@dataclass(frozen=True, slots=True)
class Place:
    """A queue as a group sees it."""

    group: str
    topic: str
    queue: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint: messages of one queue that were given to a client for `invisible_ms`."""

    place: Place
    start: int
    pop_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    logged_from: int = NOT_KNOWN
    next_offset: int = STAYS
    broker_name: str = ""


@dataclass(frozen=True, slots=True)
class Acked:
    """Acknowledges these messages of the checkpoint at `address`."""

    place: Place
    address: int
    start: int
    pop_ms: int
    offsets: tuple[int, ...]
    broker_name: str = ""


@dataclass(frozen=True, slots=True)
class OrderTaken:
    """Messages of one queue in order; no more are given before these are acknowledged."""

    place: Place
    pop_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    attempt: str = ""
    logged_from: int = NOT_KNOWN
    next_offset: int = STAYS


@dataclass(frozen=True, slots=True)
class OrderAcked:
    """The message at `offset`, given at `pop_ms`, is acknowledged."""

    place: Place
    pop_ms: int
    offset: int


@dataclass(frozen=True, slots=True)
class OrderHidden:
    """One of them comes again at `visible_ms` at the earliest."""

    place: Place
    pop_ms: int
    offset: int
    visible_ms: int


PopRecord = Taken | Acked | OrderTaken | OrderAcked | OrderHidden


def encode_record(record: PopRecord) -> tuple[bytes, bytes]:
    """Tags and body."""
    place = record.place
    value: dict[str, Any] = {"c": place.group, "pt": record.pop_ms, "q": place.queue}
    value["t"] = place.topic
    match record:
        case Taken():
            tags = b"ck"
            value |= {
                "bm": 0,
                "bn": record.broker_name,
                "d": [offset - record.start for offset in record.offsets],
                "fr": record.logged_from,
                "it": record.invisible_ms,
                "n": len(record.offsets),
                "nx": record.next_offset,
                "so": record.start,
            }
        case Acked():
            tags = b"bAck"
            value |= {
                "aol": list(record.offsets),
                "ap": record.address,
                "bn": record.broker_name,
                "so": record.start,
            }
        case OrderTaken():
            tags = b"oPop"
            value |= {
                "at": record.attempt,
                "fr": record.logged_from,
                "it": record.invisible_ms,
                "nx": record.next_offset,
                "o": list(record.offsets),
            }
        case OrderAcked():
            tags = b"oAck"
            value["ao"] = record.offset
        case OrderHidden():
            tags = b"oVis"
            value |= {"ao": record.offset, "vt": record.visible_ms}
    return tags, json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def decode_record(tags: bytes, body: bytes) -> PopRecord | None:
    """Inverse; None for a record that is not ours."""
    try:
        value = json.loads(body)
        if b"\\u" in body:  # half a surrogate pair is no text
            json.dumps(value, ensure_ascii=False).encode()
        return _decode(tags, value)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _int(value: Any) -> int:
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return number


def _decode(tags: bytes, value: dict[str, Any]) -> PopRecord | None:
    place = Place(str(value["c"]), str(value["t"]), _int(value["q"]))
    pop_ms = _int(value["pt"])
    if tags == b"ck":
        start = _int(value["so"])
        return Taken(
            place,
            start,
            pop_ms,
            _int(value["it"]),
            tuple(start + _int(step) for step in value["d"]),
            _int(value["fr"]),
            _int(value["nx"]),
            str(value["bn"]),
        )
    if tags == b"bAck":
        offsets = tuple(map(_int, value["aol"]))
        address, start = _int(value["ap"]), _int(value["so"])
        return Acked(place, address, start, pop_ms, offsets, str(value["bn"]))
    if tags == b"oPop":
        return OrderTaken(
            place,
            pop_ms,
            _int(value["it"]),
            tuple(map(_int, value["o"])),
            str(value["at"]),
            _int(value["fr"]),
            _int(value["nx"]),
        )
    if tags == b"oAck":
        return OrderAcked(place, pop_ms, _int(value["ao"]))
    if tags == b"oVis":
        return OrderHidden(place, pop_ms, _int(value["ao"]), _int(value["vt"]))
    return None
