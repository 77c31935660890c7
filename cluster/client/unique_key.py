"""Client-made message ids (UNIQ_KEY; docs/spec/store.md 6.8): 32 hex digits.

IPv4 (4 bytes) | process id, low bits (2) | random (4) | ms, low bits (4) | counter (2)
"""

from __future__ import annotations

import os
import secrets

COUNTER_MASK = 0xFFFF


class UniqueKeys:
    """Makes ids; all but the counter is written once per millisecond at most."""

    def __init__(self) -> None:
        self._head = b"7F000001%04X%b" % (
            os.getpid() & 0xFFFF,
            secrets.token_hex(4).upper().encode(),
        )
        self._counter = 0
        self.at(0)

    def at(self, now_ms: int) -> None:
        """Ids from here on are of this time."""
        self._prefix = b"UNIQ_KEY\x01%b%08X%%04X\x02" % (self._head, now_ms & 0xFFFFFFFF)

    def property(self) -> bytes:
        """The next id as a property pair."""
        self._counter = counter = (self._counter + 1) & COUNTER_MASK
        return self._prefix % counter
