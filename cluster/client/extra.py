"""Properties of a message beside its numbers, encoded once: the user's, and those of a delay.

KEYS TAGS …                         what the user gives
TIMER_DELAY_MS | TIMER_DELIVER_MS   so long after it came | at that time (docs/spec/store.md 7.2)
DELAY                               a level (docs/spec/store.md 7.1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from cluster.client.message import Receipt
from cluster.errors import InvalidRequest, MessageTooLarge
from commitlog import property_names as names
from commitlog.errors import StoreUsageError
from commitlog.properties import check_user_properties, encode_properties, find_property

PROPERTIES_SIZE_MAX = 32_000
"""Of what the user adds; the record's limit is 32,767 and our own properties need some of it."""

_DELAY_MS, _DELIVER_MS = names.TIMER_DELAY_MS.encode(), names.TIMER_DELIVER_MS.encode()


def encode_extra(key: str | None, tags: str | None, properties: Mapping[str, str] | None) -> bytes:
    """Key, tags and the user's own properties. Raises InvalidRequest, MessageTooLarge."""
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
    """What makes a message wait; times in seconds. Raises InvalidRequest unless one is given.

    A delay counts from when the broker has the message, so clocks need not agree.
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
    """The time that a recall names; 0 for a delay, which the broker knows better.

    Raises InvalidRequest for a message that was not sent with a time.
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
