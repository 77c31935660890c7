"""Mutants of the log, its small files and its repair: durability, the recognition of damage."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_DLEDGER = "dledger."
_TESTS = "tests/dledger/log/"
_POWER = "tests/chaos/mutants/test_power.py::"


def _storage(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_DLEDGER + module, old, new),)


STORAGE = (
    Mutant(
        "log-sync-does-nothing",
        ("D3", "D4"),
        _storage(
            "log.log_tasks",
            "        for file in self.files:\n            file.datasync()\n        self.done",
            "        self.done",
        ),
        seeds=10,
        rows=("3",),
        tests=(_POWER + "test_what_was_synced_is_there_in_every_file",),
    ),
    Mutant(
        "log-sync-forgets-the-first-file",
        ("R13",),
        _storage("log.log_tasks", "for file in self.files:", "for file in self.files[-1:]:"),
        tests=(
            "tests/dledger/log/test_file_log.py::test_every_dirty_file_is_synced_in_order",
            _POWER + "test_what_was_synced_is_there_in_every_file",
        ),
        rows=("5",),
        seeds=5,
    ),
    Mutant(
        "flushed-is-the-end-at-the-end-of-the-sync",
        ("D3", "R13"),
        _storage(
            "log.log_flush",
            "            at.flushed = sync.mark\n",
            "            at.flushed = at.end_mark()\n",
        ),
        seeds=20,
    ),
    Mutant(
        "one-hard-state-slot",
        ("R7",),
        _storage(
            "durable.hard_state",
            "self._slots.write_both(encode(self.state))",
            "self._slots.write(encode(self.state))",
        ),
        tests=(
            "tests/dledger/log/test_crash.py::test_a_save_of_the_hard_state_is_old_or_new_at_every_cut",
        ),
        rows=("7",),
        seeds=5,
    ),
    Mutant(
        "slot-written-without-sync",
        ("D1", "D2"),
        _storage(
            "durable.double_slot",
            "        self._file.datasync()\n        self.sequence",
            "        self.sequence",
        ),
        seeds=20,
        rows=(
            "1",
            "2",
        ),
        tests=(_POWER + "test_a_vote_that_was_saved_is_there",),
    ),
    Mutant(
        "slot-checksum-ignored",
        ("D2",),
        _storage(
            "durable.double_slot",
            "    if crc32(payload, crc32(data[:16])) != crc:\n",
            "    if False:\n",
        ),
        tests=(
            "tests/dledger/log/test_crash.py::test_a_finished_save_survives_the_loss_of_either_slot",
        ),
        rows=("7",),
        seeds=5,
        first=60,
    ),
    Mutant(
        "lost-hard-state-is-term-zero",
        ("D2", "R6"),
        _storage(
            "durable.hard_state",
            "        self._state = decode(slots.payload)",
            "        self._state = decode(slots.payload or encode(HardState(Term(0), None, 1)))",
        )
        + _storage(
            "durable.hard_state",
            "        if slots.payload is None:\n            slots.close()",
            "        if False:\n            slots.close()",
        ),
        tests=(
            "tests/dledger/log/test_crash.py::test_without_a_valid_slot_the_node_does_not_start",
        ),
    ),
    Mutant(
        "body-checksum-not-verified",
        ("D7",),
        _storage(
            "log.check",
            "            found_body != body_crc\n            or",
            "            False or",
        ),
        tests=(
            "tests/dledger/log/test_damage.py::test_every_flipped_byte_of_a_marked_log_is_found",
        ),
        rows=("33",),
    ),
    Mutant(
        "chain-checksum-not-verified",
        ("D7",),
        _storage(
            "log.check",
            "            or found_chain\n            != crc32(pack_chain("
            "chain_crc, magic, size, index, term, position, channel, body_crc))\n",
            "",
        ),
        tests=(
            "tests/dledger/log/test_damage.py::test_every_flipped_byte_of_a_marked_log_is_found",
        ),
    ),
    Mutant(
        "checksums-of-many-not-verified",
        ("D7", "S10"),
        (
            Patch(
                "commitlog.records.accel_entries",
                "    if found[:, 36:44].tobytes() != checksums.tobytes():\n",
                "    if False:\n",
            ),
        ),
        tests=(_TESTS + "test_many.py::test_one_wrong_byte_or_a_cut_gives_the_same_verdict",),
    ),
    Mutant(
        "places-of-many-not-verified",
        ("S10",),
        (
            Patch(
                "commitlog.records.accel_entries",
                "    if found.tobytes() != expected.tobytes():\n",
                "    if False:\n",
            ),
        ),
        tests=(_TESTS + "test_many.py::test_one_wrong_byte_or_a_cut_gives_the_same_verdict",),
    ),
    Mutant(
        "damage-at-the-mark-is-the-end",
        ("D8", "R1"),
        _storage(
            "log.recovery",
            '    raise LogDamaged(\n        f"entry {mark.index} at position {mark.position} was',
            "    return cold.anchor\n    raise LogDamaged(\n"
            '        f"entry {mark.index} at position {mark.position} was',
        ),
        tests=(
            "tests/dledger/log/test_damage.py::test_damage_at_the_mark_refuses_to_start_and_keeps_everything",
        ),
        rows=("32",),
    ),
    Mutant(
        "no-flush-mark-is-an-empty-log",
        ("R1", "D8"),
        _storage(
            "log.recovery",
            "        if mark.position >= 0:\n            raise LogDamaged(f\"the log's files",
            "        if False:\n            raise LogDamaged(f\"the log's files",
        ),
        tests=("tests/dledger/log/test_damage.py::test_all_files_gone_is_not_an_empty_log",),
    ),
    Mutant(
        "mark-never-moves",
        ("R1",),
        _storage(
            "log.log_flush",
            "                self._mark_due = self._clock() + MARK_DELAY_S\n",
            "                self._mark_due = None\n",
        ),
        tests=(
            "tests/dledger/log/test_damage.py::test_damage_at_the_mark_refuses_to_start_and_keeps_everything",
        ),
    ),
    Mutant(
        "recovery-does-not-rewrite",
        ("R3",),
        _storage(
            "log.recovery",
            "        touch(data.write(piece.data, piece.start.end))\n",
            "",
        ),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[-1.0]",),
    ),
    Mutant(
        "recovery-does-not-sync",
        ("R3",),
        _storage(
            "log.recovery",
            "    for name in sorted(touched):\n        touched[name].datasync()\n",
            "",
        ),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[-1.0]",),
    ),
    Mutant(
        "torn-tail-is-kept",
        ("D6", "R10"),
        _storage("log.recovery", "    touch(data.zero_rest(state.tail.end))\n", ""),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",),
        rows=("33",),
    ),
    Mutant(
        "truncation-not-physical",
        ("D6",),
        _storage(
            "log.file_log",
            "        for file in files.data.zero(end, min(old.end, files.data.end)):\n"
            "            file.datasync()\n",
            "",
        ),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",),
        rows=("12",),
        seeds=15,
    ),
    Mutant(
        "truncation-not-synced",
        ("D6",),
        _storage(
            "log.file_log",
            "        for file in files.data.zero(end, min(old.end, files.data.end)):\n"
            "            file.datasync()\n",
            "        files.data.zero(end, min(old.end, files.data.end))\n",
        ),
        tests=(
            "tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",
            _POWER + "test_what_was_truncated_does_not_come_back[alone]",
        ),
        rows=("12",),
    ),
    Mutant(
        "a-finished-truncation-is-cleared-in-one-slot",
        ("R11",),
        _storage(
            "durable.truncate_intent", 'self._slots.write_both(b"")', 'self._slots.write(b"")'
        ),
        tests=(
            "tests/dledger/log/test_damage.py"
            "::test_rot_does_not_bring_a_finished_truncation_back[0]",
            "tests/dledger/log/test_damage.py"
            "::test_rot_does_not_bring_a_finished_truncation_back[1]",
        ),
    ),
    Mutant(
        "no-truncate-intent",
        ("R11",),
        _storage(
            "log.file_log",
            "        self._intent_file.write(\n",
            "        str(\n",
        ),
        argued=(
            "The lowered flush mark alone makes a half-zeroed range a torn tail, which recovery "
            "zeroes to its end. The intent is the second line: it is needed only when power fails "
            "between the writes of the mark's two slots and the first of them rots as well, which "
            "are two faults."
        ),
    ),
    Mutant(
        "truncation-lowers-one-slot-of-the-mark",
        ("R2", "R11"),
        _storage(
            "log.log_flush",
            "            self.mark_file.write_both(  # an older slot",
            "            self.mark_file.write(  # an older slot",
        ),
        tests=tuple(
            "tests/dledger/log/test_damage.py"
            "::test_rot_after_a_truncation_brings_no_mark_back_of_what_is_gone"
            f"[the truncation-{slot}]"
            for slot in (0, 1)
        ),
    ),
    Mutant(
        "recovery-lowers-one-slot-of-the-mark",
        ("R2", "R11"),
        _storage("log.recovery", "mark_file.write_both(lowered)", "mark_file.write(lowered)"),
        tests=tuple(
            "tests/dledger/log/test_damage.py"
            f"::test_rot_after_a_truncation_brings_no_mark_back_of_what_is_gone[recovery-{slot}]"
            for slot in (0, 1)
        ),
    ),
    Mutant(
        "mark-not-lowered-by-truncation",
        ("R11", "R1"),
        _storage("log.log_flush", "        if mark.index > index:\n", "        if False:\n"),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",),
    ),
    Mutant(
        "recovery-forgets-the-intent",
        ("R11",),
        _storage("log.recovery", "    if intent is None:\n        return\n", "    return\n"),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",),
    ),
    Mutant(
        "flushed-survives-truncation",
        ("D3", "D6"),
        _storage("log.log_flush", "if self._at.flushed.index > kept.index:", "if False:"),
        tests=(
            "tests/dledger/testing/test_conformance.py::TestFileLog::test_truncation_lowers_what_is_flushed",
        ),
    ),
    Mutant(
        "sync-counts-although-truncated",
        ("D3", "D6"),
        _storage("log.log_flush", "self._files.sync.cancelled = True", "pass"),
        tests=(
            "tests/dledger/testing/test_conformance.py::TestFileLog::test_a_truncation_during_a_sync_lowers_what_it_covers",
        ),
    ),
    Mutant(
        "unlinked-file-may-come-back",
        ("R11", "R13"),
        _storage(
            "log.file_row",
            "self._files.sync_dir(self._folder)  # each",
            "pass  # each",
        ),
        tests=("tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[1.0]",),
    ),
    Mutant(
        "other-chain-at-prev-accepted",
        ("R19",),
        _storage(
            "log.file_log",
            "if before.chain_crc is not None and before.chain_crc != source.prev_chain_crc:",
            "if False:",
        ),
        tests=(
            "tests/dledger/testing/test_conformance.py::TestFileLog::test_another_checksum_at_the_same_id_is_damage",
        ),
    ),
    Mutant(
        "position-not-checked",
        ("S10",),
        _storage(
            "log.file_log",
            "        if source.size and source.position != before.end:\n",
            "        if False:\n",
        ),
        tests=(
            "tests/chaos/mutants/test_directed.py::test_a_range_for_another_position_is_not_written",
        ),
    ),
    Mutant(
        "filler-of-a-blank-not-checked",
        ("S10", "R14"),
        _storage(
            "log.check",
            "    if not is_zero(data[offset + BLANK_SIZE : file_end]):\n",
            "    if False:\n",
        ),
        tests=(
            "tests/dledger/log/test_check.py"
            "::test_blanks_belong_to_the_entry_behind_them[blank2-not zero-False]",
        ),
    ),
    Mutant(
        "log-goes-on-after-a-failed-write",
        ("D5",),
        _storage(
            "log.file_log",
            "        except OSError:\n            at.failed = True\n            raise\n"
            "        self.reader.cache.add(",
            "        except OSError:\n            raise\n        self.reader.cache.add(",
        ),
        tests=(
            "tests/dledger/log/test_damage.py::test_after_a_failed_write_the_log_takes_nothing_more",
        ),
    ),
)
