"""Mutants of the owner of a producer's numbers, and of the equality that a repeat must have
(R8).
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_BROKER = "tests/cluster/broker/test_producer_owners.py::"
_CORE = "tests/cluster/core/test_producer_owners.py::"
_TABLE = "tests/dledger/producers/test_producers.py::"
_DEDUP = "tests/cluster/broker/test_dedup.py::"
_OWNERS = "cluster.broker.produce.owners"
_SEND = "cluster.broker.produce.send"
_BATCH = "cluster.broker.produce.send_batch"
_SAME = "cluster.broker.produce.same_content"


def _mutant(name: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant(name, ("R8",), (Patch(module, old, new),), tests=tests)


OWNERS = (
    _mutant(
        "anybody-may-use-a-producers-numbers",
        _OWNERS,
        "        if self._access.is_on and self.owner(producer) not in (None, sender):\n",
        "        if False:\n",
        f"{_BROKER}test_a_forged_pair_swallows_nothing[ask0]",
    ),
    _mutant(
        "an-owner-is-not-in-the-log",
        _OWNERS,
        "        if self._access.is_on and self.owner(producer) is None:\n",
        "        if False:\n",
        f"{_BROKER}test_a_forged_pair_swallows_nothing[ask0]",
    ),
    _mutant(
        "an-owner-counts-when-it-is-committed",
        _OWNERS,
        "        return coming[-1].owner if coming else self._table.owner(producer)\n",
        "        return self._table.owner(producer)\n",
        f"{_BROKER}test_before_the_first_message_is_committed",
    ),
    _mutant(
        "the-short-way-asks-nobody-who-sends",
        _SEND,
        "                or sender != target.sender\n",
        "",
        f"{_BROKER}test_one_connection_of_two_accounts",
    ),
    _mutant(
        "the-short-way-of-batches-asks-nobody-who-sends",
        _BATCH,
        "    if cursor is NOBODY or target.sender != request.sender:\n",
        "    if cursor is NOBODY:\n",
        f"{_BROKER}test_one_connection_of_two_accounts",
    ),
    _mutant(
        "a-batch-is-numbered-by-its-first-message",
        _BATCH,
        "    if any(PRODUCER in item.properties for item in items):\n",
        "    if PRODUCER in items[0].properties:\n",
        f"{_BROKER}test_a_batch_is_numbered_as_a_whole",
    ),
    _mutant(
        "numbers-are-read-before-a-broker-takes-properties-away",
        _SEND,
        "        producer, sequence = read_numbers(stored)\n",
        "        producer, sequence = read_numbers(request.properties)\n",
        f"{_BROKER}test_numbers_hide_behind_what_a_broker_takes_away",
    ),
    _mutant(
        "whoever-is-taken-over-keeps-the-short-way",
        "cluster.broker.produce.decisions",
        "    sends.invalidate()",
        "    None",
        f"{_BROKER}test_handing_over_is_a_right",
    ),
    _mutant(
        "what-is-asked-again-is-nobodys",
        "cluster.protocol.send",
        "    if request.signed is not None:\n",
        "    if False:\n",
        f"{_BROKER}test_what_is_asked_again_says_whose_it_is",
    ),
    _mutant(
        "a-half-may-name-any-group",
        "cluster.broker.kernel.net.needs",
        "    if template.sys_flag & TRANSACTION_MASK:\n",
        "    if False:\n",
        f"{_BROKER}test_a_half_needs_the_group_that_its_property_names",
    ),
    _mutant(
        "an-owner-overtakes-the-numbers-before-it",
        "cluster.core.apply",
        "            batch.tell_numbers()\n",
        "",
        f"{_CORE}test_who_was_heard_last_does_not_depend_on_pieces[ends0]",
    ),
    _mutant(
        "an-owner-counts-as-a-number",
        "dledger.producers.table",
        "        if found is not None and found.streams:\n",
        "        if found is not None:\n",
        f"{_CORE}test_an_owner_alone_says_nothing_of_numbers",
    ),
    _mutant(
        "numbers-come-back-without-their-owner",
        "dledger.producers.table",
        "            owner = self._departed.take(producer)\n",
        "            owner = self._departed.take(producer) and None\n",
        f"{_TABLE}test_r8_numbers_that_come_back_have_their_owner",
    ),
    _mutant(
        "what-is-on-the-way-is-nobodys",
        "dledger.producers.table",
        "        return owner if owner is not None and self._has_sent(producer) else None\n",
        "        return None\n",
        f"{_TABLE}test_r8_numbers_that_come_back_have_their_owner",
    ),
    _mutant(
        "an-owner-outlives-its-numbers",
        "dledger.producers.table",
        "        return owner if owner is not None and self._has_sent(producer) else None\n",
        "        return owner\n",
        f"{_TABLE}test_r8_an_owner_goes_when_no_number_is_known",
    ),
    _mutant(
        "a-flood-of-ids-pushes-out-those-of-others",
        "dledger.producers.table",
        "            return self._shares.with_most_producers(self._applied)\n",
        "            return producer\n",
        f"{_TABLE}test_r8_a_flood_of_ids_pushes_out_those_of_its_own_account",
    ),
    _mutant(
        "a-flood-of-streams-pushes-out-producers-of-others",
        "dledger.producers.table",
        "            return self._shares.with_most_streams(self._applied)\n",
        "            return producer\n",
        f"{_TABLE}test_r8_a_flood_of_ids_pushes_out_those_of_its_own_account",
    ),
    _mutant(
        "a-gap-is-told-in-streams-that-were-forgotten",
        "dledger.producers.table",
        "not (self._has_sent(producer) and self._is_whole(producer)):\n",
        "not self._has_sent(producer):\n",
        f"{_TABLE}test_r8_no_gap_is_told_in_a_stream_that_was_forgotten",
        f"{_TABLE}test_r8_no_schedule_calls_a_stored_number_not_done",
    ),
    _mutant(
        "who-comes-back-is-known-as-a-whole",
        "dledger.producers.table",
        "            is_whole = self._is_whole(producer)\n",
        "            is_whole = True\n",
        f"{_TABLE}test_r8_no_gap_is_told_in_a_stream_that_was_forgotten",
        f"{_TABLE}test_r8_no_schedule_calls_a_stored_number_not_done",
    ),
    _mutant(
        "who-is-dropped-from-the-departed-never-was",
        "dledger.producers.owners",
        "            self.is_complete = False\n",
        "",
        f"{_TABLE}test_r8_who_left_the_departed_is_not_taken_for_new",
        f"{_TABLE}test_r8_no_schedule_calls_a_stored_number_not_done",
    ),
    _mutant(
        "a-flood-of-ids-pushes-out-the-departed-of-others",
        "dledger.producers.owners",
        "            gone = self._shares.with_most_producers(self._owners)\n",
        "            gone = next(iter(self._owners))\n",
        f"{_TABLE}test_r8_a_flood_of_ids_pushes_out_departed_of_its_own_account",
    ),
    _mutant(
        "a-checkpoint-makes-producers-whole",
        "dledger.producers.table",
        "            self._applied[producer].is_whole = False\n",
        "            pass\n",
        f"{_CORE}test_a_checkpoint_tells_whose_streams_were_forgotten",
    ),
    _mutant(
        "a-checkpoint-takes-the-departed-for-all",
        "dledger.producers.table",
        " = self._departed.is_complete and not all_may_be\n",
        " = True\n",
        f"{_CORE}test_a_checkpoint_tells_whose_streams_were_forgotten",
    ),
    _mutant(
        "a-checkpoint-without-owners-is-believed",
        "cluster.core.producer_rows",
        '    if "owners" not in checkpoint and not ownerless:\n',
        "    if False:\n",
        f"{_CORE}test_a_checkpoint_of_a_version_without_owners_is_not_believed",
    ),
    _mutant(
        "a-copy-keeps-numbers-that-end-another-name",
        "cluster.core.delay.copies",
        "pair for pair in pairs if PRODUCER not in pair and not pair.startswith(SEQUENCE)\n",
        "pair for pair in pairs if not pair.startswith((PRODUCER, SEQUENCE))\n",
        f"{_CORE}test_a_copy_has_no_numbers_under_any_name",
    ),
    _mutant(
        "a-forgotten-producer-keeps-the-short-way",
        "cluster.broker.kernel.write.dedup",
        "        table.forgot = self._forgotten\n",
        "",
        f"{_DEDUP}test_a_producer_that_is_forgotten_is_looked_at_anew",
    ),
    _mutant(
        "another-message-is-taken-for-a-repeat",
        _SAME,
        "        if record is not None and not is_same(record, item):\n",
        "        if False:\n",
        f"{_DEDUP}test_another_message_under_a_used_number_is_an_error",
    ),
    _mutant(
        "a-repeat-is-told-by-its-body-alone",
        _SAME,
        "    return before == now\n",
        "    return True\n",
        f"{_DEDUP}test_another_message_under_a_used_number_is_an_error",
    ),
    _mutant(
        "a-used-number-is-told-before-it-is-committed",
        "cluster.broker.produce.repeated",
        "    if numbers.wait_for <= context.applied():\n",
        "    if used is not None or numbers.wait_for <= context.applied():\n",
        f"{_DEDUP}test_a_used_number_is_told_when_it_is_committed",
    ),
)
