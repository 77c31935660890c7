"""Properties that a client writes into a message beside its numbers, encoded once.

    UNIQ_KEY                            the client-made message id
    KEYS TAGS …                         the user's
    TIMER_DELAY_MS | TIMER_DELIVER_MS   delay after arrival | time of delivery
    DELAY                               a delay level

A message id has 32 hex digits:

    IPv4 (4 bytes) | process id, low bits (2) | random (4) | ms, low bits (4) | counter (2)

Source: docs/spec/store.md 6.8, 7.1, 7.2.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping

from cluster.client.message import Receipt
from cluster.errors import InvalidRequest, MessageTooLarge
from commitlog.errors import StoreUsageError
from commitlog.records import property_names as names
from commitlog.records.properties import check_user_properties, encode_properties, find_property

PROPERTIES_SIZE_MAX = 32_000
"""Limit of the user's properties: a record holds 32,767 bytes, and ours need some of them."""

UNIQUE_KEY_COUNTER_MASK = 0xFFFF

_DELAY_MS, _DELIVER_MS = names.TIMER_DELAY_MS.encode(), names.TIMER_DELIVER_MS.encode()


def encode_extra(key: str | None, tags: str | None, properties: Mapping[str, str] | None) -> bytes:
    """Encode key, tags and the user's own properties.

    Raises:
        InvalidRequest: a name or value is no text, or has a reserved name or character.
        MessageTooLarge: they have more than `PROPERTIES_SIZE_MAX` bytes.
    """
    if key is None and tags is None and not properties:
        return b""
    pairs: dict[str, str] = {}
    if key is not None:
        pairs["KEYS"] = key
    if tags is not None:
        pairs["TAGS"] = tags
    pairs.update(properties or {})
    for name, value in pairs.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest(
                f"property {name!r:.40} = {value!r:.40} is no text, and nothing was sent; give text"
            )
    try:
        if properties:
            check_user_properties(properties)
        block = encode_properties(pairs)
        "".join(pairs.values()).encode()
    except StoreUsageError as error:
        raise InvalidRequest(str(error)) from error
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a property is no text that UTF-8 can hold: {error}") from error
    if len(block) > PROPERTIES_SIZE_MAX:
        raise MessageTooLarge(
            f"the properties have {len(block)} bytes and the limit is {PROPERTIES_SIZE_MAX}; "
            "put more into the body"
        )
    return block


def delay_properties(
    delay: float | None, deliver_at: float | None, delay_level: int | None
) -> bytes:
    """Encode the property that delays a message.

    A delay counts from the message's arrival at the broker, so clocks need not agree.

    Args:
        delay: seconds.
        deliver_at: a time in seconds since 1970.
        delay_level: one of RocketMQ's levels.

    Raises:
        InvalidRequest: none or several of the three are given, or one is negative.
    """
    given = [value for value in (delay, deliver_at, delay_level) if value is not None]
    if len(given) != 1 or not math.isfinite(given[0]) or given[0] < 0:
        raise InvalidRequest(
            f"delay={delay!r}, deliver_at={deliver_at!r}, delay_level={delay_level!r}, "
            "and nothing was sent; give exactly one of them, not below 0"
        )
    if delay is not None:
        return encode_properties({names.TIMER_DELAY_MS: str(round(delay * 1000))})
    if deliver_at is not None:
        return encode_properties({names.TIMER_DELIVER_MS: str(round(deliver_at * 1000))})
    return encode_properties({names.DELAY: str(delay_level)})


def timer_due_ms(receipt: Receipt) -> int:
    """The delivery time that a recall names, in ms; 0 for a delay: the broker knows its end.

    Raises:
        InvalidRequest: the message was sent without a delay and without a time.
    """
    deliver_ms = find_property(receipt.properties, _DELIVER_MS)
    if deliver_ms is not None:
        return int(deliver_ms)
    if find_property(receipt.properties, _DELAY_MS) is None:
        raise InvalidRequest(
            f"the message {receipt.message_id} was not sent with a delay or a time, so it "
            "cannot be recalled"
        )
    return 0


class UniqueKeys:
    """Makes message ids; all but the counter is formatted once per turn of the event loop."""

    def __init__(self) -> None:
        self._head = b"7F000001%04X%b" % (
            os.getpid() & 0xFFFF,
            secrets.token_hex(4).upper().encode(),
        )
        self._counter = 0
        self.at(0)

    def at(self, now_ms: int) -> None:
        """Put this time into the following ids."""
        self._prefix = b"UNIQ_KEY\x01%b%08X%%04X\x02" % (self._head, now_ms & 0xFFFFFFFF)

    def property(self) -> bytes:
        """The next id, encoded as a property."""
        self._counter = counter = (self._counter + 1) & UNIQUE_KEY_COUNTER_MASK
        return self._prefix % counter
