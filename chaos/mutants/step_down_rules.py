"""Mutants of state that ends with a leadership or with a node, and of the users of the log's
files.
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_BROKER = "tests/cluster/broker/"
_PARTS = _BROKER + "test_leadership_parts.py::"
_STEP_DOWN = _BROKER + "test_step_down.py::"
_LEFT_BEHIND = _PARTS + "test_a_leadership_that_ends_leaves_nothing_behind"


def _survives(name: str, module: str, old: str, new: str, test: str, rule: str = "R9") -> Mutant:
    """Something that outlives the leadership that it belongs to."""
    return Mutant(name, (rule,), (Patch(f"cluster.broker.{module}", old, new),), tests=(test,))


STEP_DOWN = (
    _survives(
        "a-leadership-that-ends-drops-nothing",
        "kernel.apply.machine",
        "            self._leadership_parts.leadership_ended()\n",
        "            pass\n",
        _LEFT_BEHIND,
    ),
    _survives(
        "a-part-that-fails-keeps-the-others",
        "kernel.events.leadership_parts",
        "            for _, forget in reversed(self._parts):\n"
        "                stack.callback(forget)\n",
        "            for _, forget in self._parts:\n                forget()\n",
        _PARTS + "test_a_part_that_fails_to_forget_keeps_no_other_from_it",
    ),
    _survives(
        "a-part-is-not-in-the-list",
        "consume.feature",
        "        leadership_parts.add(self.locks, Locks.leadership_ended)\n",
        "",
        _PARTS + "test_a_part_that_can_change_is_in_the_list_or_has_a_reason",
    ),
    _survives(
        "parked-pulls-survive-step-down",
        "consume.long_poll",
        "        if self._suspended:\n",
        "        if False:\n",
        _STEP_DOWN + "test_a_parked_pull_of_a_leader_that_lost_the_lead_waits_at_the_next_one",
        "R18",
    ),
    _survives(
        "parked-pops-survive-step-down",
        "pop.waiting",
        "        if self._by_topic:\n",
        "        if False:\n",
        _STEP_DOWN + "test_a_parked_pop_of_a_leader_that_lost_the_lead_waits_at_the_next_one",
        "R18",
    ),
    _survives(
        "a-pull-is-parked-after-the-step-down",
        "consume.long_poll",
        "        if not self._leads():",
        "        if False:",
        _STEP_DOWN + "test_a_question_that_was_proven_when_the_lead_was_lost_waits_at_the_next_one",
        "R18",
    ),
    _survives(
        "a-question-is-parked-after-the-step-down",
        "pop.waiting",
        "        if not self._leads():",
        "        if False:",
        _STEP_DOWN + "test_a_question_that_was_proven_when_the_lead_was_lost_waits_at_the_next_one",
        "R18",
    ),
    _survives(
        "offset-commits-survive-step-down",
        "wiring",
        "    parts.add(offsets, OffsetKeeper.drop)\n",
        "",
        _STEP_DOWN
        + "test_an_offset_that_was_not_logged_does_not_take_the_group_back_in_a_later_leadership",
        "R25",
    ),
    _survives(
        "outcomes-on-their-way-survive-step-down",
        "kernel.apply.leader_tables",
        "parts.add(Settling(), Settling.drop)",
        "Settling()",
        _STEP_DOWN
        + "test_a_delayed_message_whose_delivery_was_lost_is_delivered_by_the_next_leadership",
        "R17",
    ),
    _survives(
        "outcomes-of-transactions-survive-step-down",
        "transactions.outcomes",
        "        under_way, self._under_way = self._under_way, {}\n",
        "        under_way: dict = {}\n",
        _STEP_DOWN
        + "test_a_transaction_whose_batch_nobody_was_told_of_is_ended_by_the_next_leadership",
        "R17",
    ),
    _survives(
        "halves-that-were-taken-stay-taken",
        "transactions.check_back",
        "        self._put_back(list(self._taken))\n",
        "        pass\n",
        _PARTS + "test_what_a_leadership_had_taken_is_there_for_the_next_one",
        "R17",
    ),
    _survives(
        "delayed-messages-that-were-taken-stay-taken",
        "delay.delivery",
        "        self._table.put_back(self._taken)\n        self._taken.clear()\n",
        "        pass\n",
        _PARTS + "test_what_a_leadership_had_taken_is_there_for_the_next_one",
        "R17",
    ),
    _survives(
        "waiting-repeats-survive-step-down",
        "kernel.apply.leader_tables",
        "parts.add(RepeatsWaiting(bound), _tell_unknown)",
        "RepeatsWaiting(bound)",
        _STEP_DOWN
        + "test_a_repeat_whose_original_was_lost_is_not_acknowledged_for_what_stands_there",
        "R8",
    ),
    _survives(
        "producers-numbers-survive-step-down",
        "kernel.apply.leader_tables",
        "        parts.add(state.producers, ProducerTable.drop_uncommitted)\n",
        "",
        _STEP_DOWN + "test_a_message_after_one_that_was_lost_gets_its_place",
    ),
    _survives(
        "pop-cursors-survive-step-down",
        "pop.feature",
        "        leadership_parts.add(popping.cursors, PopCursors.drop)\n",
        "",
        _STEP_DOWN + "test_messages_of_a_pop_that_was_lost_are_given_by_the_next_leadership",
    ),
    _survives(
        "a-lost-creation-goes-on-for-ever",
        "kernel.write.state_writer",
        "                creation.ended(unknown)\n",
        "                pass\n",
        _STEP_DOWN + "test_a_topic_whose_creation_was_lost_is_created_by_the_next_leadership",
    ),
    _survives(
        "a-creation-without-room-goes-on-for-ever",
        "kernel.write.state_writer",
        "        if self.waiting >= WAITING_MAX:\n"
        '            raise QueueFull("too many requests wait for topics to be created; pause, then '
        'retry")\n'
        "        creation = table.get(name)\n"
        "        if creation is None:\n"
        "            creation = _Creation(self, table, name)\n",
        "        creation = table.get(name)\n"
        "        if creation is None:\n"
        "            creation = table[name] = _Creation(self, table, name)\n"
        "        if self.waiting >= WAITING_MAX:\n"
        '            raise QueueFull("pause")\n'
        "        if not creation.waiting:\n",
        _STEP_DOWN + "test_a_topic_that_had_no_room_to_be_created_is_created_when_there_is",
    ),
    _survives(
        "a-stop-leaves-offsets-unlogged",
        "node",
        "            return\n        await self._log_offsets(parts)\n",
        "            return\n",
        _BROKER + "test_lifecycle.py::test_a_stop_leaves_no_offset_of_a_consumer_unlogged[3]",
        "R25",
    ),
    _survives(
        "a-stop-leaves-late-offsets-unlogged",
        "node",
        "            await self._log_offsets(parts)  # no other",
        "            pass  # no other",
        _BROKER + "test_lifecycle.py::test_an_offset_that_comes_while_a_node_alone_stops_is_logged",
        "R25",
    ),
    _survives(
        "a-planned-move-overtakes-offsets",
        "kernel.net.offset_decisions",
        "        call.begun_anyway(lambda: flush(lambda _: then(call)))\n",
        "        flush(lambda _: None)\n        call.begun_anyway(lambda: then(call))\n",
        _STEP_DOWN + "test_a_planned_move_begins_when_the_last_offsets_are_logged",
        "R25",
    ),
    Mutant(
        "retention-forgets-open-halves",
        ("R16",),
        (
            Patch(
                "cluster.core.transactions.halves",
                "        return min(self._waiting, default=None)\n",
                "        return None\n",
            ),
        ),
        tests=(_BROKER + "test_retention.py::test_what_an_open_half_message_waits_for_stays",),
    ),
    Mutant(
        "retention-looks-beyond-the-state",
        ("R16",),
        (
            Patch(
                "cluster.broker.admin.retention",
                "        position = min(position, self._begin_of_file(state.position))\n",
                "",
            ),
        ),
        tests=(
            _BROKER + "test_retention.py::test_no_file_goes_that_the_state_has_not_read_to_its_end",
        ),
    ),
    _survives(
        "a-request-overtakes-those-held-for-the-leader",
        "kernel.events.leadership",
        "        self._is_releasing = serving is not Serving.WAITING and bool(self._held)\n"
        "        if self._is_releasing:\n",
        "        if serving is not Serving.WAITING and self._held:\n",
        _BROKER + "test_parts.py"
        "::test_a_request_that_comes_before_those_held_are_served_waits_behind_them",
        "R8",
    ),
    Mutant(
        "a-gap-gives-new-numbers-to-what-is-in-doubt",
        ("R8",),
        (
            Patch(
                "cluster.client.producer.in_flight_batch",
                "        return self.error if self.was_first else None\n",
                "        return self.error\n",
            ),
        ),
        tests=(
            "tests/cluster/client/producer/test_producer.py"
            "::test_a_gap_keeps_the_numbers_of_what_may_still_be_stored_elsewhere",
        ),
    ),
)
