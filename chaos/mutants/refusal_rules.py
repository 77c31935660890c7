"""Mutants of a broker's undoing: when its log refuses a batch, or when its leadership ends."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_REFUSED = "tests/cluster/broker/test_refused_batches.py::"

REFUSALS = (
    Mutant(
        "a-refused-batch-takes-back-numbers-of-others",
        ("R8", "R9"),
        (
            Patch(
                "cluster.broker.kernel.write.dedup",
                "            self._table.take_back(addition)\n",
                "            self._table.drop_uncommitted()\n",
            ),
        ),
        tests=(
            f"{_REFUSED}test_a_refused_batch_leaves_numbers_of_settled_batches_that_are_not_dispatched",
        ),
    ),
    Mutant(
        "a-refused-batch-does-not-give-back-the-runs-it-pushed-out",
        ("R8", "R9"),
        (
            Patch(
                "dledger.producers.table",
                "            over.runs[:] = addition.before\n",
                "            over.runs.pop()\n",
            ),
        ),
        tests=(
            f"{_REFUSED}test_a_refused_batch_with_many_runs_gives_back_those_that_it_pushed_out",
        ),
    ),
    Mutant(
        "a-refusal-at-the-end-of-a-leadership-puts-offsets-back",
        ("R9",),
        (
            Patch(
                "cluster.broker.kernel.write.appender",
                "            if leadership == self._leaderships:  #",
                "            if True:  #",
            ),
        ),
        tests=(f"{_REFUSED}test_a_batch_refused_while_its_leadership_ends_takes_nothing_back",),
    ),
    Mutant(
        "what-is-being-created-outlives-its-leadership",
        ("R9",),
        (
            Patch(
                "cluster.broker.wiring",
                "    parts.add(writer, StateWriter.leadership_ended)\n",
                "",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_planned_moves.py"
            "::test_what_was_being_created_is_told_when_the_lead_is_moved",
        ),
    ),
    Mutant(
        "an-offset-refused-in-a-move-is-not-written-again",
        ("R25",),
        (
            Patch(
                "cluster.core.offsets",
                "        state.wishes = state.in_flight | state.wishes\n",
                "",
            ),
        ),
        tests=(
            "tests/cluster/core/test_offsets.py"
            "::test_a_record_refused_in_a_move_is_written_again_with_newer_wishes",
        ),
    ),
)
