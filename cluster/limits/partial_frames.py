"""Bounds the memory that frames take which have not come whole, over all connections of a server.

A client says how long its frame is and sends what it likes of it: thirty clients with 16 MB each,
all but the last byte, hold half a gigabyte without a single request. A frame that is meant comes
whole in a moment, so when all of them together are over the bound, the connection whose frame was
begun longest ago is closed, until it fits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from cluster.limits.memory_limit import strangers_share
from cluster.protocol.frames import FRAME_SIZE_MAX
from dledger.runtime.complaints import Complaints

#: Of one server; two frames of the largest size, or hundreds of usual ones. Less where this process
#: may have little memory, but one frame of the largest size at least.
BYTES_MAX = 2 * FRAME_SIZE_MAX

_log = logging.getLogger(__name__)


class Holder(Protocol):
    """A connection."""

    address: str

    def abort(self) -> None:
        """Cut it."""
        ...


class PartialFrames:
    """Used on the event loop's thread."""

    def __init__(
        self, bytes_max: int = BYTES_MAX, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = self._least = bytes_max
        if bytes_max > FRAME_SIZE_MAX:
            self._least = FRAME_SIZE_MAX
        self._complaints = Complaints(_log, now)
        self._sizes: dict[Holder, int] = {}  # the one that was begun longest ago comes first
        self.size = 0
        self.closed = 0

    def holds(self, connection: Holder, size: int, *, began: bool) -> None:
        """`connection` keeps `size` bytes of a frame; `began`: it finished others meanwhile."""
        if began or not size:
            self.forget(connection)
        if not size:
            return
        self.size += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        if self.size <= self._least:
            return
        bytes_max = strangers_share(self._most, self._least)
        while self.size > bytes_max:
            oldest = next(iter(self._sizes))
            self.forget(oldest)
            self.closed += 1
            self._complaints.say(
                "partial frames",
                "closed the connection of %s: frames that have not come whole take more than"
                " %d bytes, and its was begun longest ago",
                oldest.address,
                bytes_max,
            )
            oldest.abort()

    def forget(self, connection: Holder) -> None:
        """The connection holds no bytes any more."""
        self.size -= self._sizes.pop(connection, 0)
