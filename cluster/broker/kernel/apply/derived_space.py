"""Is there space on the disk for queues and key index? While there is none, deriving rests.

    no space ─► waits, `why` ─► told: the replica takes no entries, producers are refused
             └─ after RETRY_SECONDS: the same chunk again ─► space: `why` is "", told

Committed entries are in the log, and in nothing else that counts: what is derived from them can
wait. So votes, heartbeats and replication go on, and so does reading what was derived before; who
asks for what came after is told to try again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from commitlog.files.system import is_out_of_space
from dledger.errors import DiskFull

#: Between two tries.
RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class DerivedSpace:
    """`why`: the sentence about the full disk, "" with space. `waits`: no try until `again`."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], object],
        again: Callable[[], None],
        told: Callable[[str], None],
    ) -> None:
        """`told` is called with `why` when that changes, inside the replica."""
        self._call_later, self._again, self._told = call_later, again, told
        self.why, self.waits = "", False

    def rest(self, error: OSError, first: int) -> None:
        """Stop deriving: the disk has no space for queues and index of entries from `first` on.
        Raises other errors again.
        """
        if not is_out_of_space(error):
            raise error
        if not self.why:
            _log.error(
                "no space for queues and key index from entry %d on (%s): producers are refused "
                "until there is; free some space",
                first,
                error,
            )
        self._tell(f"there is no space for queues and key index ({error}); free some space")
        self.waits = True
        self._call_later(RETRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self.waits = False
        self._again()

    def found(self) -> None:
        """A chunk went in."""
        if self.why:
            _log.info("there is space for queues and key index again")
            self._tell("")

    def _tell(self, why: str) -> None:
        if why != self.why:
            self.why = why
            self._told(why)

    def refusal(self) -> DiskFull:
        """The error for a client that asks for messages that are not derived yet."""
        return DiskFull(self.why)
