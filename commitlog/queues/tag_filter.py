"""Tag subscriptions against the tags code of a queue entry (docs/spec/store.md 3.1).

`a || b` asks for messages whose whole TAGS string is `a` or `b`; `*` or nothing asks for all. The
store compares hashes only; the client compares the strings again.
"""

from __future__ import annotations

from typing import Final

from commitlog.records.java import signed, string_hash

ALL: Final = "*"


def subscription_hashes(expression: str) -> frozenset[int] | None:
    """Hashes of the tags asked for; None = every message."""
    if not expression or expression == ALL:
        return None
    parts = [part.strip() for part in expression.split("||")]
    return frozenset(string_hash(part) for part in parts if part)


def matches(tags_code: int, hashes: frozenset[int] | None) -> bool:
    """May the message of this entry be one that is asked for? Compares the low 32 bits."""
    return hashes is None or signed(tags_code) in hashes
