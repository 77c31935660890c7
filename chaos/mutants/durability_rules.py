"""Mutants of answers before the commit (R22)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_TESTS = "tests/dledger/core/test_durability.py::"
_BROKER_TESTS = "tests/cluster/broker/test_durability.py::"


def _leading(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.core.leading", old, new),)


DURABILITY = (
    Mutant(
        "a-weaker-level-moves-the-commit",
        ("R22",),
        _leading(
            "        state.written = index\n",
            "        state.written = state.commit = index\n",
        ),
        tests=(f"{_TESTS}test_written_by_a_majority_is_told_and_commits_nothing",),
    ),
    Mutant(
        "written-by-the-leader-alone-is-told",
        ("R22",),
        _leading(
            "    index = Index(agreed(written, state.quorum))\n",
            "    index = Index(written[state.me])\n",
        ),
        tests=(
            f"{_TESTS}test_it_takes_a_majority[1]",
            "tests/chaos/sim/test_early_answers.py"
            "::test_what_a_majority_has_written_outlives_kills_cuts_and_clocks[0]",
        ),
    ),
    Mutant(
        "what-is-written-counts-as-flushed-in-an-early-answer",
        ("R22", "D3"),
        (
            Patch(
                "dledger.core.replication",
                "            matched=state.matched,\n            flushed=_acknowledged(state),\n",
                "            matched=state.matched,\n            flushed=state.matched,\n",
            ),
        ),
        tests=(f"{_TESTS}test_written_by_a_majority_is_told_and_commits_nothing",),
    ),
    Mutant(
        "every-send-is-acknowledged-when-it-is-written",
        ("R22",),
        (
            Patch(
                "cluster.broker.kernel.write.appender",
                "        early, batch.early = batch.early, []\n",
                "        early, batch.early = batch.early + batch.units, []\n",
            ),
        ),
        tests=(f"{_BROKER_TESTS}test_a_topic_is_acknowledged_in_memory_and_read_from_disks",),
    ),
    Mutant(
        "a-repeat-is-acknowledged-when-it-is-written",
        ("R22", "R8"),
        (
            Patch(
                "cluster.broker.produce.send_batch",
                "    is_repeat = unit.numbers is not None and unit.numbers.skip\n",
                "    is_repeat = False\n",
            ),
        ),
        tests=(f"{_BROKER_TESTS}test_our_producers_say_it_in_the_request_batches_too",),
    ),
)
