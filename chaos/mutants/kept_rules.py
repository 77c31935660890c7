"""Mutants of states between two files, and of machines with files of their own (R15)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_BY_TIME = "tests/dledger/machine/test_by_time.py::"
_KEEPING = "tests/dledger/machine/test_keeping.py::"
_CLASSES = "tests/dledger/objects/test_class_state.py::"
_FILES = "dledger.snapshots.snapshot_files"


KEPT = (
    Mutant(
        "a-state-by-time-of-another-log-is-taken",
        ("R15",),
        one_patch(
            _FILES,
            "if snapshot[:3] != (start.term, start.index, start.chain_crc):",
            "if False:",
        ),
        tests=(_BY_TIME + "test_a_state_that_is_not_of_this_log_is_passed_over",),
    ),
    Mutant(
        "a-state-by-time-of-a-machine-that-failed-is-saved",
        ("R15",),
        one_patch(
            "dledger.machine.saving",
            "if self._closed or not applier.is_whole or self._is_writing:",
            "if self._closed or self._is_writing:",
        ),
        tests=(_BY_TIME + "test_a_machine_that_failed_half_way_has_its_state_not_saved",),
    ),
    Mutant(
        "a-machine-keeps-what-its-log-has-not-on-disk",
        ("R15",),
        one_patch(
            "dledger.machine.keeping",
            "if not applier.is_whole or index > self._log.flushed:",
            "if not applier.is_whole:",
        ),
        tests=(_KEEPING + "test_what_failed_half_way_or_is_not_flushed_is_not_kept",),
    ),
    Mutant(
        "a-state-that-was-sent-is-kept-later",
        ("R15",),
        one_patch(
            "dledger.machine.restoring",
            "            self._keeping.keep_given(start, given.head.pack())\n",
            "            pass\n",
        ),
        tests=(_KEEPING + "test_a_node_that_was_sent_a_state_keeps_it_at_once",),
    ),
    Mutant(
        "files-of-another-log-are-gone-on-with",
        ("R15",),
        one_patch(
            "dledger.machine.keeping",
            "if (start.term, start.chain_crc) == (Term(term), chain_crc):",
            "if True:",
        ),
        tests=(_KEEPING + "test_files_of_another_log_stop_the_start",),
    ),
    Mutant(
        "a-flipped-bit-of-a-progress-is-believed",
        ("R15",),
        one_patch(
            "dledger.machine.keeping",
            "if (magic, version, crc) == (_MAGIC, _VERSION, right):",
            "if (magic, version) == (_MAGIC, _VERSION):",
        ),
        tests=(_KEEPING + "test_a_flipped_bit_of_the_progress_stops_the_start",),
    ),
    Mutant(
        "a-later-state-that-rots-is-called-whole",
        ("R15",),
        one_patch(
            _FILES,
            "if head is None or not (head.is_whole(file.size) and is_right(file, head)):",
            "if head is None or not head.is_whole(file.size):",
        ),
        tests=(
            "tests/cluster/commands/test_folders.py::"
            "test_a_later_state_that_rots_is_found_by_inspect",
        ),
    ),
    Mutant(
        "a-state-that-the-disk-refused-keeps-values",
        ("R15",),
        one_patch(
            "dledger.machine.saving",
            "                error = say(raised)\n",
            "                error = raised\n",
        ),
        tests=(
            "tests/dledger/objects/test_frozen.py::"
            "test_a_state_that_the_disk_refuses_keeps_nothing",
        ),
    ),
    Mutant(
        "attributes-of-collections-come-back-as-dictionaries",
        ("R15",),
        one_patch(
            "dledger.objects.replicated",
            "attributes_of(state, self._kinds)",
            "attributes_of(state)",
        ),
        tests=(_CLASSES + "test_attributes_of_collections_are_such_again",),
    ),
    Mutant(
        "slots-and-items-of-a-class-are-left-out-of-its-state",
        ("R15",),
        one_patch("dledger.objects.replicated", "    check_state(plain)\n", ""),
        tests=(_CLASSES + "test_a_class_that_a_restart_would_change_is_refused",),
    ),
    Mutant(
        "a-command-called-restore-restores-a-state",
        ("R15",),
        one_patch(
            "dledger.objects.class_state",
            "getattr(plain, name, None)\n    return found if callable(found) else None",
            "getattr(plain, name, None)\n    return found",
        ),
        tests=(_CLASSES + "test_commands_queries_and_attributes_are_no_methods_for_the_state",),
    ),
    Mutant(
        "what-a-command-changes-in-its-class-is-left-out-of-the-state",
        ("R15",),
        one_patch(
            "dledger.objects.replicated",
            "        check_containers(plain, getattr(plain, _MARK, {}))\n",
            "",
        ),
        tests=(_CLASSES + "test_a_container_of_the_class_itself_is_for_constants",),
    ),
)
