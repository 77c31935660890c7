"""Mutants of files: names last, rolls lose no record, imports are checked, readers keep theirs."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch

_POWER = "tests/chaos/mutants/test_power.py::"
_GONE = "tests/commitlog/files/test_gone_files.py::"

FILES = (
    Mutant(
        "zero-checksums-are-accepted-everywhere",
        ("R21",),
        (
            Patch(
                "dledger.log.options",
                "        return self.upgrade_index if self.fill_crc else ALL_ZERO_CRCS\n",
                "        return ALL_ZERO_CRCS\n",
            ),
        ),
        tests=(
            "tests/dledger/log/test_java_store.py::"
            "test_an_adopted_log_can_be_shipped_to_a_node_with_the_same_upgrade_index",
        ),
    ),
    Mutant(
        "the-name-of-a-new-file-is-not-synced",
        ("R13",),
        (
            Patch(
                "commitlog.files.system",
                "            if durable:\n                self.sync_dir(path.parent)\n"
                "                self.sync_dir(staging)\n",
                "",
            ),
        ),
        tests=(_POWER + "test_a_new_file_keeps_its_name",),
        rows=("6",),
    ),
    Mutant(
        "the-name-of-what-is-written-whole-is-not-synced",
        ("R13",),
        (
            Patch(
                "commitlog.files.system",
                "        for changed in dict.fromkeys((path.parent, folder)):\n",
                "        for changed in {folder} - {path.parent}:\n",
            ),
        ),
        tests=(_POWER + "test_what_is_written_whole_keeps_its_name",),
        rows=("6",),
    ),
    Mutant(
        "a-batch-that-rolls-is-lost-behind-the-boundary",
        ("R13",),
        (
            Patch(
                "dledger.log.file_row",
                "            file.pwrite(view[done : done + step], offset)\n"
                "            done += step\n",
                "            if not touched:\n"
                "                file.pwrite(view[done : done + step], offset)\n"
                "            done += step\n",
            ),
        ),
        tests=(
            "tests/dledger/log/test_crash.py::test_a_power_cut_at_every_operation[0.0]",
            _POWER + "test_what_was_synced_is_there_in_every_file",
        ),
        rows=("31",),
        seeds=5,
    ),
    Mutant(
        "a-deleted-file-is-cut-under-its-reader",
        ("R12",),
        one_patch(
            "commitlog.files.gone_files",
            "known, gone.is_last = _is_last(gone.fd)",
            "known, gone.is_last = True, True",
        ),
        tests=(_GONE + "test_a_reader_reads_all_of_it_before_a_byte_goes",),
    ),
    Mutant(
        "a-deleted-file-is-cut-that-has-another-name",
        ("R12",),
        one_patch(
            "commitlog.files.gone_files",
            "            if os.fstat(gone.fd).st_nlink:\n                return True, False",
            "            if False:\n                return True, False",
        ),
        tests=(_GONE + "test_another_name_keeps_all_of_it",),
    ),
)
