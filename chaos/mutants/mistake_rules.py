"""Mutants of the treatment of exceptions, and of records of unknown meaning."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_OWNED = "tests/dledger/runtime/test_owned.py::"
_BROKER = "tests/cluster/broker/"
_CANCELLED = "tests/dledger/machine/test_host_turns.py::"
_CANCELLED += "test_a_machine_that_is_cancelled_ends_its_group"
_UNREADABLE = f"{_BROKER}test_unreadable_records.py::"

MISTAKES = (
    Mutant(
        "a-mistake-in-what-the-loop-calls-is-dropped",
        ("D5", "R27"),
        (
            Patch(
                "dledger.runtime.owned",
                "            self.died(error)\n\n    def call_soon(",
                "            pass\n\n    def call_soon(",
            ),
        ),
        tests=(f"{_OWNED}test_a_mistake_in_what_the_loop_calls_is_told[in_a_while]",),
    ),
    Mutant(
        "a-machine-that-raises-a-cancellation-goes-on",
        ("D5", "R27"),
        (
            Patch(
                "dledger.runtime.owned",
                "MISTAKES = (Exception, asyncio.CancelledError)",
                "MISTAKES = (Exception,)",
            ),
        ),
        tests=(_CANCELLED,),
    ),
    Mutant(
        "a-mistake-in-a-shared-thread-is-dropped",
        ("D5", "R27"),
        (
            Patch(
                "dledger.runtime.disk_threads",
                "                self._died(error)\n",
                "                pass\n",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_disk_threads.py::"
            "test_a_mistake_in_a_call_is_told_and_ends_no_thread",
        ),
    ),
    Mutant(
        "a-mistake-in-a-task-is-dropped",
        ("D5", "R27"),
        (Patch("dledger.runtime.owned", "        task.add_done_callback(self._task_ended)\n", ""),),
        tests=(f"{_OWNED}test_a_mistake_in_what_the_loop_calls_is_told[in_a_task]",),
    ),
    Mutant(
        "a-mistake-of-the-replica-is-its-callers",
        ("D5", "R27"),
        (
            Patch(
                "dledger.runtime.driver",
                "            self._died(error)\n            raise NodeFailed(",
                "            raise NodeFailed(",
            ),
        ),
        tests=(
            f"{_BROKER}test_mistakes.py::test_a_mistake_in_what_the_log_owns_ends_the_node[effect]",
        ),
    ),
    Mutant(
        "what-a-request-leaves-for-later-is-the-logs",
        ("R27",),
        (Patch("dledger.runtime.owned", "        if guard is None:\n", "        if True:\n"),),
        tests=(f"{_OWNED}test_what_a_request_leaves_for_later_is_on_its_behalf",),
    ),
    Mutant(
        "a-mark-of-a-newer-version-is-passed-over",
        ("R28",),
        (
            Patch(
                "cluster.core.feature_level",
                "        if level > self.known:\n",
                "        if False:\n",
            ),
        ),
        tests=(
            "tests/cluster/core/test_feature_level.py"
            "::test_an_older_node_stops_at_a_mark_and_applies_nothing_behind_it",
        ),
    ),
    Mutant(
        "a-mistake-in-a-log-is-no-anomaly",
        ("C22",),
        (
            Patch(
                "chaos.live.judgement",
                "for said in evidence.mistakes)",
                "for said in ())",
            ),
        ),
        tests=("tests/chaos/live/test_judgement.py::test_a_mistake_in_a_nodes_log_is_an_anomaly",),
    ),
    Mutant(
        "a-change-is-not-checked-before-it-is-appended",
        ("R27",),
        (
            Patch(
                "cluster.core.internal_topics",
                "    decode_change(record.topic, record.body)\n    return record\n",
                "    return record\n",
            ),
        ),
        tests=(
            f"{_BROKER}test_refused_batches.py"
            "::test_a_change_that_no_replica_could_apply_is_refused_before_it_is_written",
        ),
    ),
    Mutant(
        "a-record-that-says-nothing-known-stops-each-replica",
        ("R27",),
        (
            Patch(
                "cluster.core.apply",
                "                        index = self._pass_over(index, str(error))\n"
                "                        continue\n",
                "                        raise\n",
            ),
        ),
        tests=(f"{_UNREADABLE}test_records_that_are_passed_over_are_counted_and_told",),
    ),
    Mutant(
        "a-number-of-any-length-is-read",
        ("R27",),
        (
            Patch(
                "commitlog.records.dispatch_rules",
                "        if level.isdigit() and int(level[:LEVEL_DIGITS_MAX]) > 0:\n",
                "        if level.isdigit() and int(level) > 0:\n",
            ),
        ),
        tests=(f"{_UNREADABLE}test_a_property_of_any_text_is_derived[SCHEDULE_TOPIC_XXXX-4]",),
    ),
)
