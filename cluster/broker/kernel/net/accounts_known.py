"""May a replica show its messages, or could the log have accounts that it has not applied?

A node that is new, was replaced or was away has messages before it has the accounts that came
later, and would show them to everybody. So it shows none by itself until it has applied all that
was committed when it met its leader; what the leader serves is judged there (R29).

    starts ─► leads, or one linearizable read has come back ─► known, until the process ends
"""

from __future__ import annotations

from cluster.broker.kernel.events.leadership import Leadership, Serving
from cluster.broker.kernel.read.current import CurrentReads
from cluster.errors import ServiceNotAvailable
from cluster.protocol.codes import RequestCode
from cluster.security.access_file import Access
from dledger.errors import DledgerError
from dledger.runtime.owned import Owned

LOOK_AGAIN_SECONDS = 0.1
READ_THE_LOG = frozenset({RequestCode.FETCH_LOG_RANGE, RequestCode.FETCH_QUEUE_RANGE})
"""Besides pulls, what any replica answers from its own log."""


class AccountsKnown:
    """One per router; ask `is_certain` before messages are shown that no leader was asked about."""

    def __init__(
        self, reads: CurrentReads, leadership: Leadership, access: Access, owned: Owned
    ) -> None:
        self._reads, self._leadership, self._access = reads, leadership, access
        self._owned = owned
        self._is_current = self._is_asking = False
        leadership.on_change(self._look)

    @property
    def is_certain(self) -> bool:
        """Either there are accounts here, or there were none when this node had caught up."""
        return self._is_current or self._access.is_on

    def check(self, code: int) -> None:
        """Raises ServiceNotAvailable for a request that may not be answered from this log yet."""
        if code in READ_THE_LOG and not self.is_certain:
            raise ServiceNotAvailable(
                "this node started just now and may not know every account; ask another one, or "
                "again shortly"
            )

    def _look(self) -> None:
        serving = self._leadership.serving
        if serving is Serving.LEADING:
            self._is_current = True
        elif serving is Serving.FOLLOWING and not (self._is_current or self._is_asking):
            self._is_asking = True
            self._owned.call_soon(self._ask)  # not from inside the replica

    def _ask(self) -> None:
        self._reads.when_current(self._heard)

    def _heard(self, error: DledgerError | None) -> None:
        self._is_asking = False
        if error is None:
            self._is_current = True
        else:
            self._owned.call_later(LOOK_AGAIN_SECONDS, self._look)
