"""Mutants of commands that share an entry of the log: each applied once, with its own number."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_TOGETHER = "tests/dledger/machine/test_together.py::"
_ALIKE = _TOGETHER + "test_commands_that_share_entries_are_applied_as_one_by_one"

TOGETHER = (
    Mutant(
        "a-leader-writes-entries-that-older-members-cannot-read",
        ("R28",),
        one_patch(
            "dledger.machine.applying",
            "return self.commands_max if all_read else 1",
            "return self.commands_max",
        ),
        tests=(_TOGETHER + "test_commands_share_entries_once_all_members_say_that_they_read_them",),
    ),
    Mutant(
        "commands-share-entries-however-slow-the-machine-is",
        ("R8",),
        one_patch("dledger.machine.applying", "int(min(fits, GROWTH", "int(min(64, GROWTH"),
        tests=(_TOGETHER + "test_a_slow_machines_commands_share_no_entries",),
    ),
    Mutant(
        "a-follower-hands-over-an-entry-of-several-commands",
        ("R8",),
        one_patch(
            "dledger.machine.leading",
            "_KINDS = frozenset(map(int, Kind)) - {int(Kind.COMMANDS)}",
            "_KINDS = frozenset(map(int, Kind))",
        ),
        tests=(_TOGETHER + "test_an_entry_of_several_is_no_command_that_a_follower_may_hand_over",),
    ),
    Mutant(
        "numbers-of-commands-begin-anew-with-a-restored-state",
        ("R8",),
        one_patch(
            "dledger.machine.state_head", "        if number <= index:\n", "        if True:\n"
        ),
        tests=(_TOGETHER + "test_pieces_and_restarts_make_no_difference",),
    ),
    Mutant(
        "a-repeat-in-an-entry-of-several-gives-its-number-to-the-next",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "            batch.number = first + at - 1\n",
            "",
        ),
        tests=(_TOGETHER + "test_a_repeat_in_an_entry_of_several_keeps_its_number_from_others",),
    ),
    Mutant(
        "a-repeat-in-an-entry-of-several-is-applied-again",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "            if verdict is _APPLY:\n                batch.add(session, [one]",
            "            if True:\n                batch.add(session, [one]",
        ),
        tests=(_ALIKE,),
    ),
    Mutant(
        "nobody-is-told-that-the-session-of-an-entry-of-several-is-gone",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "                self._told(Told(_COMMAND, session, one, index))\n",
            "                pass\n",
        ),
        tests=(_ALIKE,),
    ),
    Mutant(
        "results-are-kept-beyond-their-limit-in-front-of-an-entry-of-several",
        ("R8",),
        one_patch(
            "dledger.machine.applier",
            "                self.sessions.shrink()\n                self._admit_all(",
            "                self._admit_all(",
        ),
        tests=(_TOGETHER + "test_results_are_given_up_before_each_entry_of_several",),
    ),
    Mutant(
        "results-of-an-entry-of-several-are-not-compared",
        ("S10",),
        one_patch("dledger.machine.applier", "places[:1], [_joined(noted)]", 'places[:1], [b""]'),
        tests=(_TOGETHER + "test_another_result_within_an_entry_stops_the_node_at_its_place",),
    ),
)
