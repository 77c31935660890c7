"""Mutants of delayed messages (R17): each is delivered once, under every leader."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE_TESTS = "tests/cluster/core/delay/test_delayed.py"
_BROKER_TESTS = "tests/cluster/broker/test_delays.py"

DELAYED_RULES = (
    Mutant(
        "a-delivered-copy-does-not-name-its-record",
        ("R17",),
        (
            Patch(
                "cluster.broker.delay.outcomes",
                "            origin=position,\n",
                "            origin=0,\n",
            ),
        ),
        tests=(f"{_BROKER_TESTS}::test_a_restart_forgets_nothing_and_repeats_nothing",),
    ),
    Mutant(
        "two-outcomes-of-one-record-on-their-way",
        ("R17",),
        (
            Patch(
                "cluster.core.delay.settling",
                "        return position in self._positions\n",
                "        return False\n",
            ),
        ),
        tests=("tests/cluster/broker/test_retries.py::test_of_two_recalls_at_once_one_counts",),
    ),
    Mutant(
        "delay-progress-is-a-maximum",
        ("R17",),
        (
            Patch(
                "cluster.core.delay.delayed",
                "        if self._waiting.pop(origin, None) is not None:\n",
                "        if [self._waiting.pop(p) for p in list(self._waiting) if p <= origin]:\n",
            ),
        ),
        tests=(
            f"{_CORE_TESTS}::test_a_parked_message_waits_until_its_outcome_is_in_the_log",
            f"{_CORE_TESTS}::test_timers_come_due_in_any_order",
        ),
    ),
    Mutant(
        "a-discarded-delay-leaves-no-trace",
        ("R17",),
        (
            Patch(
                "cluster.broker.delay.delivery",
                '                outcomes.note(position, "discarded", '
                '"its topic does not exist any more")\n',
                "",
            ),
        ),
        tests=(f"{_BROKER_TESTS}::test_a_topic_that_was_deleted_gets_nothing",),
    ),
    Mutant(
        "columns-overlook-outcomes",
        ("R17",),
        (
            Patch(
                "commitlog.dispatch.accel_columns",
                '        usual &= heads["origin"] == 0\n',
                "",
            ),
        ),
        tests=(f"{_CORE_TESTS}::test_outcomes_are_read_one_by_one",),
    ),
)
