"""Mutants of transactions (R17) and of orderly locks (R23): once, under every leader."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_BROKER_TESTS = "tests/cluster/broker/test_transactions.py"

TRANSACTIONS = (
    Mutant(
        "an-outcome-does-not-name-its-half",
        ("R17",),
        (
            Patch(
                "cluster.broker.transactions.outcomes",
                "                half.position,\n                self._offsets",
                "                0,\n                self._offsets",
            ),
        ),
        tests=(f"{_BROKER_TESTS}::test_the_next_leader_knows_what_waits_and_what_is_done",),
    ),
    Mutant(
        "two-outcomes-of-one-half-on-their-way",
        ("R17",),
        (
            Patch(
                "cluster.broker.transactions.outcomes",
                "        if under_way is not None:",
                "        if False:",
            ),
            Patch(
                "cluster.broker.transactions.outcomes",
                "            for waiter in waiting:\n                waiter(error)",
                "            done(error)",
            ),
        ),
        tests=(f"{_BROKER_TESTS}::test_asked_again_and_again_it_is_delivered_once",),
    ),
    Mutant(
        "the-last-outcome-counts",
        ("R17",),
        (
            Patch(
                "cluster.core.transactions.halves",
                "            self._settle(origin, kind.get(record.topic, Outcome.COMMITTED))",
                "            pass\n"
                "        if origin in self._waiting or origin in self._recent:\n"
                "            self._waiting.setdefault(origin, Half(0, 0))\n"
                "            kind = {_OP: Outcome.ROLLED_BACK, _GIVEN_UP: Outcome.GIVEN_UP}\n"
                "            self._settle(origin, kind.get(record.topic, Outcome.COMMITTED))",
            ),
        ),
        tests=(
            "tests/cluster/core/transactions/test_halves.py"
            "::test_the_first_outcome_in_log_order_counts",
        ),
    ),
    Mutant(
        "a-discard-leaves-no-trace",
        ("R17",),
        (
            Patch(
                "cluster.broker.transactions.outcomes",
                "            self._copy(batch, half, CHECK_MAX_TIME_TOPIC, 0, 0)",
                "            pass",
            ),
        ),
        tests=(f"{_BROKER_TESTS}::test_after_the_last_check_it_is_given_up_and_may_be_resumed",),
    ),
    Mutant(
        "a-queue-is-given-away-while-its-owner-is-logged",
        ("R23",),
        (
            Patch(
                "cluster.core.locks",
                "        self._pending.update(((group, queue), to) "
                "for queue, to in decision.change.items())\n",
                "",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_lock_decisions.py"
            "::test_a_lock_holds_others_off_from_its_decision_on_and_no_judgement_does",
        ),
    ),
    Mutant(
        "a-new-leader-takes-old-leases-for-ended",
        ("R23",),
        (
            Patch(
                "cluster.core.locks",
                "        self._begun_at = now\n",
                "        self._begun_at = now - LEASE_SECONDS\n",
            ),
        ),
        tests=(
            "tests/cluster/core/test_locks.py::test_a_new_leader_gives_every_owner_a_full_lease",
        ),
    ),
)
