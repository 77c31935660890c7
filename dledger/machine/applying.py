"""Applies committed entries piece by piece, for as long as a turn of the event loop may take.

    a turn's entries ─► a piece ─► the machine ─► a piece ─► … ─► time is over ─► the next turn

Pieces grow while the machine is quick and shrink to one entry when it is slow, since a machine
cannot be stopped inside one. The first piece of a turn is applied in any case.
"""

from __future__ import annotations

import logging
from typing import Any

from dledger.core.types import Index
from dledger.machine.applier import Applier
from dledger.machine.saving import Saving
from dledger.runtime.complaints import Complaints
from dledger.runtime.replicated_log import ReplicatedLog

_log = logging.getLogger(__name__)

#: Seconds of one turn, but for one piece that takes longer: half of a heartbeat's interval.
TURN_SECONDS = 0.05
#: Entries of the first piece of a node, and of the largest.
PIECE_FIRST, PIECE_MAX = 64, 4096


class Applying:
    """The entries of one node on their way to its machine; used on its event loop."""

    def __init__(
        self, log: ReplicatedLog, applier: Applier[Any, Any], apply_seconds_max: float
    ) -> None:
        """`apply_seconds_max`: a turn that takes longer is told in the node's log."""
        self._log, self._applier = log, applier
        self._seconds_max = apply_seconds_max
        self._piece = PIECE_FIRST
        self._complaints = Complaints(_log, log.owned.time)

    def apply(self, first: Index, last: Index, saving: Saving | None) -> Index:
        """Apply entries; the last one that was, as time may be over before `last`.

        `saving`: captures states where log files begin; None: the machine has none. Raises
        StateMachineFailed, StateMachineDiverged.
        """
        begun, at = self.time(), first
        end, now = Index(first - 1), begun
        while at <= last and now - begun < TURN_SECONDS:
            end = min(last, Index(at + self._piece - 1))
            if saving is not None:
                end = saving.piece(at, end)
            self._applier.apply(self._log.store.bodies(at, end), leads=self._log.is_leader)
            before, now = now, self.time()
            self._fit(end - at + 1, now - before)
            at = Index(end + 1)
        if now - begun > self._seconds_max:
            self._complaints.say(
                "slow apply",
                "%s: the machine took %.2f s for entries %d to %d; while it runs the node is "
                "silent, so keep apply short or raise the election timeouts",
                self._log.config.node_id,
                now - begun,
                first,
                end,
            )
        return end

    def time(self) -> float:
        """Seconds, by the clock of the node's loop."""
        return self._log.owned.time()

    def _fit(self, count: int, seconds: float) -> None:
        """Choose the size of the next piece by the time of this one."""
        if seconds > TURN_SECONDS:
            self._piece = max(1, self._piece // 2)
        elif count == self._piece and seconds < TURN_SECONDS / 4:
            self._piece = min(PIECE_MAX, 2 * self._piece)
