"""Mutants of a machine that takes long: its states are restored aside, its turns are bounded."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch

_RESTORING = "tests/dledger/machine/test_restoring.py::"
_GOES_ON = _RESTORING + "test_the_log_goes_on_and_the_machine_waits"
_LATER = "tests/dledger/snapshots/test_later.py::"
_REPLICA = "dledger.replica.replica"

TURNS = (
    Mutant(
        "a-state-is-restored-on-the-event-loop",
        ("L2",),
        one_patch(
            "dledger.machine.restoring",
            "        self._owned.in_thread(work, done)\n",
            "        work()\n        self._owned.call_soon(done)\n",
        ),
        tests=(_GOES_ON,),
    ),
    Mutant(
        "entries-are-applied-while-a-state-is-restored",
        ("R15",),
        one_patch(
            "dledger.replica.apply_pace",
            "        if self.restoring >= 0:\n",
            "        if self.restoring >= 0 and commit <= self.restoring:\n",
        ),
        tests=(_LATER + "test_the_log_goes_on_while_a_state_is_restored",),
    ),
    Mutant(
        "half-a-state-is-read",
        ("R15",),
        one_patch("dledger.machine.node", "await self._saving.restoring.readable()", "pass"),
        tests=(_GOES_ON,),
    ),
    Mutant(
        "a-close-does-not-wait-for-a-state-that-is-restored",
        ("R15",),
        one_patch(
            "dledger.machine.saving",
            "if not await self.restoring.ended(STATE_SECONDS_MAX):",
            "if False:",
        ),
        tests=(_RESTORING + "test_a_close_waits_for_the_state",),
    ),
    Mutant(
        "a-state-is-asked-for-over-and-over-while-another-one-is-restored",
        ("L4",),
        one_patch(_REPLICA, " or self._pace.restoring >= 0):\n", "):\n"),
        tests=(_LATER + "test_another_state_waits_until_this_one_is_restored",),
    ),
    Mutant(
        "a-state-is-taken-while-another-one-is-restored",
        ("R15",),
        (
            Patch(_REPLICA, " or self._pace.restoring >= 0):\n", "):\n"),
            Patch(_REPLICA, " or self._pace.restoring >= 0\n", "\n"),
        ),
        tests=(_LATER + "test_another_state_waits_until_this_one_is_restored",),
    ),
)
