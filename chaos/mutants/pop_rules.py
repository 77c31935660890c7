"""Mutants of pops (R9, R17): no message leaves before its checkpoint, and no acknowledged one
returns."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE_TESTS = "tests/cluster/core/pop/test_fold.py"
_TESTS = "tests/cluster/broker/test_pop.py"
_SAFETY_TESTS = "tests/cluster/broker/test_pop_safety.py"
_UNIT = "        self._wait(batch, done)\n"

POPS = (
    Mutant(
        "a-message-given-again-does-not-name-its-checkpoint",
        ("R17",),
        (Patch("cluster.broker.pop.writer", "message.origin,\n", "0,\n"),),
        tests=(f"{_TESTS}::test_who_does_not_acknowledge_gets_it_again_and_once",),
    ),
    Mutant(
        "a-message-given-again-settles-its-whole-checkpoint",
        ("R17",),
        (
            Patch(
                "cluster.core.pop.fold",
                "self.held.replay_done(origin, (int(offset),))",
                "self.held.replay_done(origin, tuple(self.held.get(origin).left))",
            ),
        ),
        tests=(f"{_CORE_TESTS}::test_what_was_stored_again_is_done_with_once",),
    ),
    Mutant(
        "a-pop-leaves-before-its-checkpoint-is-logged",
        ("R17",),
        (
            Patch(
                "cluster.broker.pop.writer",
                f"{_UNIT}\n    def write_again(",
                "        done(None)\n\n    def write_again(",
            ),
        ),
        tests=(f"{_SAFETY_TESTS}::test_a_pop_leaves_only_when_its_checkpoint_is_in_the_log",),
    ),
    Mutant(
        "the-timer-overtakes-an-acknowledgement",
        ("R9",),
        (
            Patch(
                "cluster.broker.pop.reviving",
                "            if (address, offset) in self._settling:\n",
                "            if False:\n",
            ),
        ),
        tests=(f"{_SAFETY_TESTS}::test_an_acknowledgement_on_its_way_is_not_overtaken",),
    ),
    Mutant(
        "an-ordered-pop-overtakes-an-acknowledgement",
        ("R9",),
        (
            Patch(
                "cluster.broker.pop.popping", "        if place in self.busy:\n", "        if 0:\n"
            ),
        ),
        tests=(
            f"{_SAFETY_TESTS}::test_a_queue_with_an_ordered_acknowledgement_on_its_way_stays_shut",
        ),
    ),
    Mutant(
        "two-pops-take-one-message",
        ("R9",),
        (
            Patch(
                "cluster.core.pop.cursors",
                "self.next, self.logged = max(self.next, to), logged\n",
                "self.logged = logged\n",
            ),
        ),
        tests=(f"{_CORE_TESTS}::test_cursors_run_ahead_and_follow_an_administrator",),
    ),
    Mutant(
        "a-new-leader-does-not-give-again-what-was-due",
        ("R17",),
        (
            Patch(
                "cluster.core.pop.held",
                "        self._due = [(held.due_ms, address) "
                "for address, held in self._rows.items()]\n",
                "",
            ),
        ),
        tests=(f"{_CORE_TESTS}::test_due_times_and_what_is_put_back",),
    ),
)
