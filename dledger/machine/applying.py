"""Applies committed entries piece by piece, for as long as a turn of the event loop may take.

    a turn's entries ─► a piece ─► the machine ─► a piece ─► … ─► time is over ─► another turn
    too many wait    ─► `refusal`: as leader, the node takes no command until fewer do

How much of a turn that is depends on the other groups of the host (runtime/turns.py).

Pieces, counted in commands, grow while the machine is quick, shrink to one entry when it is slow,
and fit the time that is left, since a machine cannot be stopped inside one. For the same reason no
more commands share an entry than the machine applies in half a turn: the leader goes by its own
machine's speed, and begins with one. The first piece of a turn is applied in any case. The bound of
what waits is soft: commands that are in the log when it is passed are committed and applied, too.
"""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

from commitlog.errors import StoreDamaged
from dledger.core.types import Index
from dledger.errors import MachineBehind, NodeFailed
from dledger.machine.applier import Applier
from dledger.machine.changes import Changes
from dledger.machine.entries import COMMANDS_MAX, LEVEL, Piece
from dledger.machine.saving import Saving
from dledger.machine.settings import MachineSettings
from dledger.runtime.complaints import Complaints
from dledger.runtime.replicated_log import ReplicatedLog
from dledger.runtime.turns import TURN_SECONDS

_log = logging.getLogger(__name__)

#: Commands of the first piece of a node, and of the largest; the entry that makes it so many may
#: have some more.
PIECE_FIRST, PIECE_MAX = 1, 4096
#: A clock of a loop may show no time that is shorter.
CLOCK_SECONDS = 0.001
#: So many times as many commands as before may share an entry after a quick piece.
GROWTH = 4


class SlowApply(NamedTuple):
    """A turn of applying that took longer than `MachineSettings.apply_seconds_max`.

    Attributes:
        first, last: the entries that were applied in it.
        seconds: the time that they took, in which the node was silent.
        waiting: committed entries that were left to apply.
    """

    first: int
    last: int
    seconds: float
    waiting: int


class Applying:
    """The entries of one node on their way to its machine; used on its event loop.

    Attributes:
        slow: the newest turn that took too long; None: none did.
        commands_max: how many commands may share an entry, by the speed of the machine.
    """

    def __init__(
        self, log: ReplicatedLog, applier: Applier[Any, Any], settings: MachineSettings
    ) -> None:
        self._log, self._applier, self._settings = log, applier, settings
        self.slow = Changes[SlowApply | None](None, "slow applies", log.owned.spared)
        self._piece, self._speed = PIECE_FIRST, math.inf
        self.commands_max = 1
        self._complaints = Complaints(_log, log.owned.time)

    def apply(self, first: Index, last: Index, saving: Saving | None) -> Index:
        """Apply entries; the last one that was, as time may be over before `last`.

        That before `first` while the machine's state is taken in pieces.

        `saving`: captures states where log files begin; None: the machine has none. Raises
        StateMachineFailed, StateMachineDiverged.
        """
        begun, at, seconds = self.time(), first, self._log.driver.share.seconds
        end, now = Index(first - 1), begun
        while at <= last and now - begun < seconds:
            size = self._size(begun + seconds - now)
            end = min(last, Index(at + size - 1))
            if saving is not None:
                end = saving.piece(at, end)
                if end < at:
                    break
            count, piece = self._applier.count, Piece(self._log.store.bodies(at, end), size)
            self._applier.apply(piece, leads=self._log.is_leader)
            end = Index(self._applier.applied)
            before, now = now, self.time()
            self._fit(piece.count, now - before)
            self._fit_commands(self._applier.count - count, now - before)
            at = Index(end + 1)
        self._log.driver.share.held = end < first
        if now - begun > self._settings.apply_seconds_max:
            self._tell_slow(SlowApply(first, end, now - begun, self.waiting))
        return end

    @property
    def waiting(self) -> int:
        """Committed entries that are to be applied here."""
        return max(0, self._log.driver.replica.node.commit - self._begin)

    @property
    def _begin(self) -> int:
        """The entry that they are behind: in the state, or in one that the machine is given."""
        return max(self._applier.applied, self._applier.restoring)

    def shared_max(self) -> int:
        """How many commands may share an entry: 1 before every member says that it reads those.

        Once the log has one, all must read it, also those that are away.
        """
        all_read = self._applier.shares_entries or all(
            level >= LEVEL for level in self._log.driver.roster.levels().values()
        )
        return self.commands_max if all_read else 1

    def refusal(self) -> MachineBehind | None:
        """Why this node, as leader, takes no more commands; None: it does."""
        waiting, settings = self.waiting, self._settings
        if not waiting:
            return None
        size = self._waiting_bytes()
        if waiting <= settings.apply_waiting_max and size <= settings.apply_waiting_bytes_max:
            return None
        return MachineBehind(
            f"{self._log.config.node_id} has {waiting} committed entries of {size} bytes to apply, "
            f"and {settings.apply_waiting_max} of {settings.apply_waiting_bytes_max} may wait; "
            "pause and try again, or keep apply short"
        )

    def status(self) -> tuple[int, MachineBehind | None]:
        """`waiting` and `refusal`; 0 and None while the node does not run."""
        try:
            return self.waiting, self.refusal()
        except NodeFailed:
            return 0, None

    def _waiting_bytes(self) -> int:
        store, commit = self._log.store, self._log.driver.replica.node.commit
        try:
            begin = store.position_of(Index(self._begin + 1))
            return store.position_of(Index(commit + 1)) - begin
        except (StoreDamaged, IndexError):  # a place that is repaired, or a state that comes
            return 0

    def _tell_slow(self, slow: SlowApply) -> None:
        self._complaints.say(
            "slow apply",
            "%s: the machine took %.2f s for entries %d to %d; while it runs the node is "
            "silent, so keep apply short or raise the election timeouts",
            self._log.config.node_id,
            slow.seconds,
            slow.first,
            slow.last,
        )
        self.slow.tell(slow)

    def time(self) -> float:
        """Seconds, by the clock of the node's loop."""
        return self._log.owned.time()

    def _size(self, seconds: float) -> int:
        """How many commands the next piece has, to take no longer than this."""
        fits = self._speed * seconds
        return self._piece if fits >= self._piece else max(1, int(fits))

    def _fit(self, count: int, seconds: float) -> None:
        """Choose the size of the next pieces by the time of this one, of so many commands."""
        self._speed = count / max(seconds, CLOCK_SECONDS)
        if seconds > TURN_SECONDS:
            self._piece = max(1, self._piece // 2)
        elif count >= self._piece and seconds < TURN_SECONDS / 4:
            self._piece = min(PIECE_MAX, 2 * self._piece)

    def _fit_commands(self, count: int, seconds: float) -> None:
        """Choose how many commands may share an entry by the time of so many of them."""
        if count:
            fits = TURN_SECONDS / 2 * count / max(seconds, 1e-9)
            self.commands_max = max(1, int(min(fits, GROWTH * self.commands_max, COMMANDS_MAX)))
