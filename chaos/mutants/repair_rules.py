"""Mutants of repair: the limits of a damaged node (R2), and of the bytes that may be put back."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch

_TESTS = "tests/dledger/repair/test_repair.py::"
_START = "tests/dledger/repair/test_damage_at_start.py::"
_SCRUBBER = "dledger.repair.scrubber"


REPAIR = (
    Mutant(
        "a-damaged-node-stands",
        ("R2",),
        one_patch("dledger.core.membership", "state.damaged >= 0 or not may", "not may"),
        tests=(_TESTS + "test_a_damaged_node_votes_by_the_end_of_its_log_and_does_not_stand",),
    ),
    Mutant(
        "a-damaged-node-votes-by-what-is-whole",
        ("R1", "R2"),
        (
            Patch(
                "dledger.core.election",
                "request.term > state.term and request.last >= state.log.last",
                "request.term > state.term and request.last.index >= state.flushed",
            ),
            Patch(
                "dledger.core.election",
                "        and request.last >= state.log.last\n",
                "        and request.last.index >= state.flushed\n",
            ),
        ),
        tests=(_TESTS + "test_a_damaged_node_votes_by_the_end_of_its_log_and_does_not_stand",),
        rows=("32",),
    ),
    Mutant(
        "a-damaged-leader-stays",
        ("R2",),
        (
            Patch(
                "dledger.core.node",
                "    if state.role is _LEADER:\n        transfer.resign(state)\n",
                "",
            ),
            Patch(
                "dledger.core.transfer",
                "    if not removed and not stalled and state.damaged < 0:\n",
                "    if not removed and not stalled:\n",
            ),
        ),
        tests=(_TESTS + "test_a_damaged_leader_hands_over_while_all_are_well",),
    ),
    Mutant(
        "damaged-entries-are-acknowledged",
        ("R2",),
        (
            Patch(
                "dledger.core.node",
                "    state.flushed = min(state.flushed, Index(event.first - 1))\n",
                "",
            ),
            Patch(
                "dledger.core.node",
                " if not 0 <= state.damaged <= event.index else Index(state.damaged - 1)\n",
                "\n",
            ),
        ),
        tests=(_TESTS + "test_what_is_damaged_is_not_acknowledged_and_is_when_it_is_mended",),
    ),
    Mutant(
        "a-start-tells-nobody-of-damage",
        ("R2",),
        one_patch(
            "dledger.replica.replica", "            self.repair.began()\n", "            pass\n"
        ),
        tests=(_TESTS + "test_damage_that_a_start_finds_is_told_to_the_rules_first",),
    ),
    Mutant(
        "damage-opens-a-log-that-nobody-mends",
        ("D8", "R1"),
        one_patch(
            "dledger.log.recovery",
            "        known = marked_end(data, slots, mark) if options.repairable else None\n",
            "        known = marked_end(data, slots, mark)\n",
        ),
        tests=(
            "tests/dledger/log/test_damage.py::"
            "test_damage_at_the_mark_refuses_to_start_and_keeps_everything",
        ),
    ),
    Mutant(
        "damage-is-applied-over",
        ("R2", "D7"),
        one_patch(
            "dledger.replica.apply_pace",
            "        if repair is not None and last > applied:\n",
            "        if False:\n",
        ),
        tests=(_TESTS + "test_applying_waits_for_what_is_damaged",),
    ),
    Mutant(
        "a-turn-of-a-replay-reads-the-rest-of-the-log",
        ("D7",),
        one_patch(
            "dledger.replica.apply_pace",
            "whole = repair.whole_through(Index(applied + 1), last)",
            "whole = min(last, repair.whole_through(Index(applied + 1), commit))",
        ),
        tests=(
            "tests/dledger/machine/test_aside.py::"
            "test_a_turn_of_a_replay_reads_what_it_applies_and_not_the_rest_of_the_log",
        ),
    ),
    Mutant(
        "other-entries-are-put-back",
        ("S2", "R19"),
        one_patch(
            _SCRUBBER,
            "        if source.runs != runs_between(at.runs, first, source.last):\n",
            "        if False:\n",
        ),
        tests=(_TESTS + "test_only_the_same_entries_are_put_back",),
    ),
    Mutant(
        "what-is-not-on-disk-is-put-back",
        ("D6",),
        one_patch(
            _SCRUBBER,
            "        if not first <= source.last <= at.flushed.index:\n",
            "        if False:\n",
        ),
        tests=(_TESTS + "test_only_the_same_entries_are_put_back",),
    ),
    Mutant(
        "what-is-truncated-is-written-over",
        ("D6", "R11"),
        one_patch(
            "dledger.log.file_log",
            "            files.work.cut_after(index)\n",
            "            pass\n",
        ),
        tests=(_TESTS + "test_what_is_truncated_meanwhile_is_not_written_over",),
    ),
    Mutant(
        "only-what-is-committed-is-mended",
        ("R2",),
        one_patch(
            "dledger.repair.repair",
            "            task = self._scrubber.begin_restore(source)\n",
            "            if source.last > self._settled():\n"
            "                return False\n"
            "            task = self._scrubber.begin_restore(source)\n",
        ),
        tests=(
            _TESTS + "test_damage_that_is_not_committed_is_mended_when_the_group_needs_just_"
            "this_replica",
        ),
    ),
    Mutant(
        "a-first-record-without-a-slot-ends-the-start",
        ("D8",),
        one_patch(
            "dledger.log.recovery",
            "        if not options.repairable or data.start != begin:\n",
            "        if not options.repairable or slots.read(cold.first) is None:\n",
        ),
        tests=(_START + "test_a_record_that_rots_while_its_slot_is_gone[first]",),
    ),
    Mutant(
        "what-is-put-back-is-not-synced",
        ("D7", "R2"),
        one_patch(_SCRUBBER, "            file.datasync()\n", ""),
        tests=(_TESTS + "test_what_was_put_back_survives_a_power_cut",),
    ),
    Mutant(
        "slots-are-not-made-again",
        ("D7",),
        one_patch(
            _SCRUBBER, "        if scrub.slots_differ and scrub.packed:\n", "        if False:\n"
        ),
        tests=(_TESTS + "test_a_whole_index_file_of_zeros_is_made_again_by_the_scrubber",),
    ),
    Mutant(
        "mended-slots-wait-for-a-sync-of-others",
        ("D7",),
        one_patch(
            "dledger.log.log_flush",
            "        self._files.slots.write(first, slots)\n        self._slots_repaired = True\n",
            "        self._files.slots.write(first, slots)\n",
        ),
        tests=("tests/dledger/log/test_slots.py::test_mended_slots_are_synced_by_the_next_mark",),
    ),
    Mutant(
        "refused-before-all-were-asked",
        ("R2",),
        one_patch(
            "dledger.repair.repair",
            "        if self._tried.issuperset(peers):\n",
            "        if True:\n",
        ),
        tests=(
            _TESTS + "test_damage_on_a_majority_is_mended_by_the_one_that_has_it_or_refused[1]",
        ),
    ),
    Mutant(
        "an-answer-nobody-asked-for-is-taken",
        ("S10",),
        one_patch(
            "dledger.repair.repair",
            "            if (message.request_id, message.sender) == (request_id, peer):\n",
            "            if True:\n",
        ),
        tests=(_TESTS + "test_an_answer_to_another_question_is_not_taken_in",),
    ),
    Mutant(
        "a-header-is-believed-without-its-chain",
        ("D8", "S2"),
        one_patch(
            "dledger.log.damage",
            "            if way.tail.chain_crc == header.chain_crc:\n",
            "            if True:\n",
        ),
        tests=(_START + "test_a_record_that_rots_while_its_slot_is_gone[new-term]",),
    ),
    Mutant(
        "a-record-without-a-slot-takes-those-behind-it-along",
        ("D8",),
        one_patch(
            "dledger.log.damage",
            "    proven = _proven(data, before, mark, options)\n",
            "    proven = None\n",
        ),
        tests=(_START + "test_a_record_that_rots_while_its_slot_is_gone[middle]",),
    ),
    Mutant(
        "the-term-of-a-damaged-entry-is-guessed",
        ("S2", "D8"),
        one_patch(
            "dledger.log.cold",
            "            if before != (highest if behind is None else behind.epoch):\n",
            "            if False:\n",
        ),
        tests=(_START + "test_an_entry_whose_term_nobody_tells_ends_the_start",),
    ),
    Mutant(
        "files-that-are-gone-are-made-again-in-silence",
        ("R2", "D8"),
        one_patch("dledger.log.recovery", "    if gone:\n", "    if False:\n"),
        tests=(_START + "test_data_files_that_are_gone_come_back_from_peers[(1,)-cleanly]",),
    ),
    Mutant(
        "an-end-that-nobody-knows-is-made-up",
        ("D8",),
        one_patch(
            "dledger.log.gone",
            "        if start in gone and (slot is None or slot.position != position):\n",
            "        if False:\n",
        ),
        tests=(
            _START + "test_a_log_whose_first_or_last_place_is_unknown_does_not_start[last]",
            _START + "test_a_log_whose_first_or_last_place_is_unknown_does_not_start[first]",
        ),
    ),
    Mutant(
        "a-restart-forgets-which-files-were-gone",
        ("R2", "D8"),
        one_patch(
            "dledger.log.gone",
            "        note.write(sorted({*gone, *known}))\n",
            "        pass\n",
        ),
        tests=(_START + "test_what_was_gone_is_not_forgotten_by_the_next_start",),
    ),
    Mutant(
        "what-was-gone-is-forgotten-before-it-is-on-disk",
        ("R2", "R3"),
        one_patch(
            "dledger.log.recovery",
            "                data.write_again(lost, lost + data.file_size)\n"
            "            data.sync_all()\n",
            "                pass\n",
        ),
        tests=(_START + "test_what_was_gone_is_forgotten_when_it_is_on_disk_again",),
    ),
    Mutant(
        "damage-ends-the-start-of-what-derives-from-the-log",
        ("D8",),
        one_patch(
            "cluster.broker.kernel.apply.log_beginning",
            "        except StoreDamaged:\n            return None\n",
            "        except KeyError:\n            return None\n",
        ),
        tests=(
            "tests/cluster/broker/test_repair.py::"
            "test_a_node_starts_over_damage_that_it_would_derive_from_and_is_mended"
            "[where-a-file-begins]",
        ),
    ),
    Mutant(
        "a-node-alone-makes-files-again",
        ("D8",),
        one_patch(
            "dledger.log.recovery", "    if options.refilled:\n", "    if options.repairable:\n"
        ),
        tests=(_START + "test_a_node_alone_does_not_make_files_again",),
    ),
)
