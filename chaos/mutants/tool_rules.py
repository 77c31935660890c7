"""Mutants of tools for folders of nodes: their words on a damaged one, and new ones."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_FOLDERS = "tests/cluster/commands/test_damaged_folders.py::"
_IN_USE = "tests/cluster/commands/test_folders_in_use.py::"
_MOVES = "tests/cluster/move/test_killed_moves.py::"
_PARTIAL = "tests/cluster/commands/test_partial_backup.py::"

TOOLS = (
    Mutant(
        "a-folder-without-its-generations-counts-as-whole",
        ("R6",),
        one_patch(
            "dledger.runtime.folder_check",
            "        generations.read_fields(files, folder)\n        yield from _one_copy(",
            "        yield from () and _one_copy(",
        ),
        tests=(_FOLDERS + "test_tools_and_a_start_agree",),
    ),
    Mutant(
        "a-folder-without-its-beginning-counts-as-whole",
        ("R20",),
        one_patch(
            "dledger.runtime.folder_check",
            "            yield _refused(path, log_start.told_lost(why))\n            return\n",
            "            return\n",
        ),
        tests=(_FOLDERS + "test_both_files_of_the_beginning_are_damaged",),
    ),
    Mutant(
        "a-folder-that-does-not-start-is-said-to-start",
        ("D2", "R6"),
        one_patch(
            "cluster.commands.folders",
            "for one in (Start.REFUSED, Start.ANEW)",
            "for one in ()",
        ),
        tests=(_FOLDERS + "test_tools_and_a_start_agree",),
    ),
    Mutant(
        "a-folder-without-its-identity-is-no-node",
        ("R6",),
        one_patch(
            "dledger.runtime.folder_check",
            '    return bool(log_start.positions(files, folder / "data")) and any(',
            "    return False and any(",
        ),
        tests=(
            _FOLDERS + "test_a_group_of_a_host_that_lost_its_identity_is_not_passed_over",
            _FOLDERS + "test_tools_and_a_start_agree",
        ),
    ),
    Mutant(
        "a-backup-ends-at-a-group-that-cannot-be-read",
        ("D8",),
        one_patch(
            "cluster.commands.embedded_backup",
            "                return Failed(tuple(str(log.folder) for log in left), error)\n",
            "                raise\n",
        ),
        tests=(_PARTIAL + "test_the_other_groups_of_a_host_are_copied",),
    ),
    Mutant(
        "an-import-makes-its-nodes-under-their-own-names",
        ("R6",),
        one_patch("cluster.move.into_log", "Path(raft.data_dir) / STAGING", "Path(raft.data_dir)"),
        tests=(_MOVES + "test_one_that_is_killed_leaves_no_node_and_the_next_begins_anew",),
    ),
    Mutant(
        "a-log-that-is-cut-as-it-is-read-is-damaged",
        ("D8",),
        one_patch("cluster.commands.folders", "range(READS_OF_OPEN - 1)", "range(0)"),
        tests=(_IN_USE + "test_a_file_that_goes_as_an_open_folder_is_read_is_no_damage",),
    ),
    Mutant(
        "an-entry-that-is-being-written-is-damaged",
        ("D8",),
        one_patch(
            "commitlog.inspect.command", " or (one.path, one.position) in places]", " or places]"
        ),
        tests=(_IN_USE + "test_an_entry_that_is_being_written_is_no_damage",),
    ),
    Mutant(
        "a-log-that-is-empty-behind-a-state-has-lost-its-end",
        ("D8",),
        one_patch(
            "dledger.runtime.folder_check",
            "max(last_index, index_before(files, folder))",
            "last_index",
        ),
        tests=(_FOLDERS + "test_a_log_that_is_empty_behind_a_state_is_whole",),
    ),
)
