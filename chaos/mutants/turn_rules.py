"""Mutants of machines that take long: states are restored aside, groups share bounded turns."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch

_RESTORING = "tests/dledger/machine/test_restoring.py::"
_GOES_ON = _RESTORING + "test_the_log_goes_on_and_the_machine_waits"
_LATER = "tests/dledger/snapshots/test_later.py::"
_REPLICA = "dledger.replica.replica"
_TURNS, _LOG = "dledger.runtime.turns", "dledger.runtime.replicated_log"
_SHARED = "tests/dledger/runtime/test_turns.py::"
_HOST = "tests/dledger/machine/test_host_turns.py::"
_MACHINE = "tests/dledger/machine/test_turns.py::"
_CANDIDACIES = "dledger.runtime.candidacies"
_PLACES = "tests/dledger/runtime/test_candidacies.py::"
_REPLAY = _HOST + "test_groups_that_replay_their_logs_share_the_turns"

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
        one_patch(_REPLICA, " or self.pace.restoring >= 0):\n", "):\n"),
        tests=(_LATER + "test_another_state_waits_until_this_one_is_restored",),
    ),
    Mutant(
        "a-state-is-taken-while-another-one-is-restored",
        ("R15",),
        (
            Patch(_REPLICA, " or self.pace.restoring >= 0):\n", "):\n"),
            Patch(_REPLICA, " or self.pace.restoring >= 0\n", "\n"),
        ),
        tests=(_LATER + "test_another_state_waits_until_this_one_is_restored",),
    ),
    Mutant(
        "each-group-of-a-host-has-turns-of-its-own",
        ("L2",),
        one_patch(
            "dledger.runtime.shared",
            "turns = Turns(owned) if host is None else host.turns",
            "turns = Turns(owned)",
        ),
        tests=(_REPLAY,),
    ),
    Mutant(
        "entries-that-have-to-wait-for-a-turn-count-as-applied",
        ("S8",),
        one_patch(_LOG, "return Index(first - 1)", "return last"),
        tests=(_MACHINE + "test_entries_that_have_to_wait_are_not_applied",),
    ),
    Mutant(
        "a-turn-goes-on-until-each-group-has-had-a-part",
        ("L2",),
        one_patch(_TURNS, "while count and self._waiting and self._left() > 0:", "while count:"),
        tests=(_SHARED + "test_many_groups_take_turns",),
    ),
    Mutant(
        "a-group-applies-though-others-wait",
        ("L2",),
        one_patch(
            _TURNS,
            "if self._waiting or self._serves is not None:",
            "if self._serves is not None:",
        ),
        tests=(_SHARED + "test_events_wait_behind_groups_that_wait",),
    ),
    Mutant(
        "a-group-waits-again-before-its-part-is-charged",
        ("L2",),
        one_patch(_TURNS, "if self._serves is not share:  #", "if True:  #"),
        tests=(_SHARED + "test_long_entries_push_out_no_other_group",),
    ),
    Mutant(
        "groups-that-come-have-applied-for-no-time",
        ("L2",),
        one_patch(_TURNS, "        share.charged = max(share.charged, self._charged)\n", ""),
        tests=(_SHARED + "test_groups_that_come_again_and_again_do_not_keep_others_waiting",),
    ),
    Mutant(
        "one-long-entry-is-charged-in-full",
        ("L2",),
        one_patch(
            _TURNS,
            "min(max(used, CHARGE_SECONDS_MIN), CHARGE_SECONDS_MAX)",
            "max(used, CHARGE_SECONDS_MIN)",
        ),
        tests=(_SHARED + "test_one_entry_of_seconds_is_forgiven",),
    ),
    Mutant(
        "what-is-applied-at-once-is-no-part-of-the-turn",
        ("L2",),
        one_patch(_TURNS, "        self._used += seconds\n", ""),
        tests=(_SHARED + "test_events_of_one_turn_have_one_turns_time",),
    ),
    Mutant(
        "commits-are-applied-before-the-groups-turn-comes",
        ("L2",),
        one_patch(
            "dledger.replica.apply_pace", "        if self.is_behind:\n", "        if False:\n"
        ),
        tests=(
            "tests/dledger/replica/test_apply_pace.py::"
            "test_a_turn_has_so_many_bytes_but_for_one_large_entry",
        ),
    ),
    Mutant(
        "pieces-are-longer-than-the-time-that-is-left",
        ("L2",),
        one_patch(
            "dledger.machine.applying",
            "return self._piece if fits >= self._piece else max(1, int(fits))",
            "return self._piece",
        ),
        tests=(_MACHINE + "test_a_small_part_of_a_turn_is_kept_to",),
    ),
    Mutant(
        "each-turn-of-a-slow-machine-reads-thousands-of-entries",
        ("L2",),
        one_patch("dledger.replica.apply_pace", "self._count_max = 2 * count", "pass"),
        tests=(_MACHINE + "test_a_slow_machine_applies_few_entries_a_turn",),
    ),
    Mutant(
        "all-groups-of-a-host-stand-for-election-at-once",
        ("L1",),
        one_patch(
            _CANDIDACIES,
            "if not self._waiting and len(self._standing) < AT_ONCE:",
            "if not self._waiting:",
        ),
        tests=(
            _PLACES + "test_so_many_stand_at_once_and_the_others_in_order",
            "tests/dledger/machine/test_quiet_hosts.py::"
            "test_few_groups_of_a_host_that_dies_stand_for_election_at_once",
        ),
    ),
    Mutant(
        "a-group-without-a-majority-keeps-its-place-for-ever",
        ("L1",),
        one_patch(
            _CANDIDACIES,
            "if self._timer is None and self._waiting and self._standing:",
            "if False:",
        ),
        tests=(
            _PLACES + "test_a_group_without_a_majority_gives_its_place_away_when_its_time_is_over",
        ),
    ),
    Mutant(
        "a-group-that-leads-keeps-its-place",
        ("L1",),
        one_patch(_CANDIDACIES, "            self._places.leave(self)\n", "            pass\n"),
        tests=(_PLACES + "test_a_group_gives_its_place_away_as_soon_as_it_leads_or_follows",),
    ),
    Mutant(
        "a-held-election-never-begins",
        ("L1",),
        one_patch(
            "dledger.core.hosts",
            '    elif not event.held and state.election_deadline == float("inf"):\n',
            "    elif False:\n",
        ),
        tests=(
            "tests/dledger/core/test_quiet.py::test_an_election_that_is_held_begins_when_it_may",
        ),
    ),
    Mutant(
        "an-election-is-held-though-it-is-not-due",
        ("L1",),
        one_patch(
            "dledger.core.hosts",
            "event.held and state.now >= state.election_deadline",
            "event.held",
        ),
        tests=(
            "tests/dledger/core/test_quiet.py::"
            "test_an_election_that_is_not_due_and_a_leader_are_not_held",
        ),
    ),
    Mutant(
        "groups-dial-a-host-that-is-away",
        ("L1",),
        one_patch("dledger.runtime.link", "            await self._host()\n", ""),
        tests=(
            "tests/dledger/machine/test_host_links.py::"
            "test_a_group_makes_no_attempt_while_a_host_is_away",
        ),
    ),
)
