"""Mutants of parts for embedders: checksums of the ready objects, files of an embedded group."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import one_patch

_CHECKSUMS = "tests/dledger/objects/test_checksums.py::"
_RESTORED = _CHECKSUMS + "test_a_restored_state_has_it_and_goes_on_with_it"
_LATER = "tests/cluster/commands/test_later_versions.py::"
_NAMES = "tests/cluster/commands/test_folder_names.py::"
_BACKUP = "tests/cluster/commands/test_embedded_backup.py::"
_BUSY = "tests/cluster/commands/test_backup_of_busy_nodes.py::"
_NEW = "tests/cluster/backup/test_new_folders.py::"
_USES = "tests/cluster/commands/test_embedded_uses.py::"
_MACHINE = "dledger.machine.state_machine"
_DICT, _LOCK, _KV, _SUM, _OWN = (
    f"dledger.objects.{name}"
    for name in ("dictionary", "lock", "kv_machine", "state_sum", "replicated")
)


def _summed(name: str, module: str, before: str, after: str, test: str = _RESTORED) -> Mutant:
    return Mutant(name, ("S10",), one_patch(module, before, after), tests=(test,))


def _streamed(name: str, module: str, before: str, after: str, test: str) -> Mutant:
    tests = ("tests/dledger/machine/test_streamed_states.py::" + test,)
    return Mutant(name, ("S10",), one_patch(module, before, after), tests=tests)


EMBEDDED = (
    _summed(
        "a-value-that-went-is-still-in-the-checksum",
        _DICT,
        "        before = self._all.pop(key)\n        self._sum -= hash_of_pair(key, before)\n",
        "        before = self._all.pop(key)\n",
    ),
    _summed(
        "a-value-that-was-replaced-is-still-in-the-checksum",
        _DICT,
        "            self._sum -= hash_of_pair(key, before)\n        self._all.put",
        "        self._all.put",
    ),
    _summed(
        "a-restored-dictionary-has-the-checksum-of-an-empty-one",
        _DICT,
        "self._sum += sum(hash_of_pair(key, value) for key, value in pairs.items())",
        "pass",
    ),
    _summed(
        "a-lock-that-ended-is-still-in-the-checksum",
        _LOCK,
        "        self._sum -= hash_of([name, *self._all.pop(name)])\n",
        "        self._all.pop(name)\n",
    ),
    _summed(
        "a-lease-that-ended-is-still-in-the-checksum",
        _KV,
        "        self._leases_sum -= hash_of([number, *self._leases.pop(number)])\n",
        "        self._leases.pop(number)\n",
    ),
    _summed(
        "history-that-was-compacted-is-still-in-the-checksum",
        _KV,
        "        self._history_sum -= sum(map(_hash_of_change, self._history[:first]))\n",
        "",
    ),
    _summed(
        "a-checksum-looks-at-no-value-anew",
        _DICT,
        "part = part_of(self._all.keys, self._sum)",
        "part = ()",
        _CHECKSUMS + "test_a_state_that_was_changed_behind_its_back_has_another_checksum",
    ),
    _summed(
        "a-checksum-looks-at-the-same-values-each-time",
        _SUM,
        "checksum_of(chosen_by) % count",
        "0 % count",
        _CHECKSUMS + "test_of_many_values_one_that_rots_is_found_before_long",
    ),
    _summed(
        "a-comparison-passes-over-the-keys-before-its-part",
        _SUM,
        "items[begin : begin + LOOK_COUNT]",
        "items[:][begin : begin + LOOK_COUNT]",
        _CHECKSUMS + "test_a_comparison_looks_at_no_more_than_its_part",
    ),
    _summed(
        "a-comparison-reads-large-values-without-a-bound",
        _SUM,
        "if size >= LOOK_BYTES",
        "if False",
        _CHECKSUMS + "test_large_values_are_bounded_by_their_bytes",
    ),
    _summed(
        "rows-of-keys-grow-without-a-bound",
        "dledger.objects.sorted_keys",
        "if len(row) > ROW_MAX:",
        "if False:",
        "tests/dledger/objects/test_sorted_keys.py::test_it_is_a_sorted_list",
    ),
    _summed(
        "rows-of-keys-become-short-and-many",
        "dledger.objects.sorted_keys",
        "if len(row) < ROW_MAX // 4 and len(self._rows) > 1:",
        "if not row and len(self._rows) > 1:",
        "tests/dledger/objects/test_sorted_keys.py::test_it_is_a_sorted_list",
    ),
    _summed(
        "values-that-change-places-have-one-checksum",
        _SUM,
        "    return crc * crc\n",
        "    return crc\n",
        _CHECKSUMS + "test_values_that_change_places_are_seen",
    ),
    _summed(
        "a-key-runs-into-its-value-in-the-checksum",
        _SUM,
        '"{len(key)}:{key}{value}"',
        '"{key}{value}"',
        _CHECKSUMS + "test_states_that_look_alike_have_others",
    ),
    _summed(
        "the-checksum-of-ones-own-class-is-never-asked",
        _OWN,
        "ComparedMachine if has_checksum else ObjectMachine",
        "ObjectMachine",
        _CHECKSUMS + "test_a_class_of_ones_own_is_compared_if_it_has_a_checksum",
    ),
    _summed(
        "a-call-that-stops-every-node-is-proposed",
        _OWN,
        "            self._check(args, kwargs)\n",
        "",
        "tests/dledger/objects/test_replicated.py::"
        "test_arguments_that_a_command_does_not_take_are_refused_here",
    ),
    _summed(
        "a-machine-whose-apply-is-async-is-started",
        "dledger.machine.applier",
        "        check_methods(machine)\n",
        "",
        "tests/dledger/objects/test_class_state.py::"
        "test_a_machine_with_methods_that_do_nothing_when_called_is_refused",
    ),
    _streamed(
        "a-generator-is-collected-before-it-is-written",
        _MACHINE,
        "yield iter(found)",
        "yield tuple(found)",
        "test_no_more_than_a_piece_is_in_memory",
    ),
    _streamed(
        "a-generator-is-left-open",
        _MACHINE,
        '(close := getattr(found, "close", None))',
        "(close := None)",
        "test_parts_are_closed_whatever_happens",
    ),
    _streamed(
        "a-generator-sees-what-is-applied-behind-its-place",
        _MACHINE,
        "return tuple(state)",
        "return state",
        "test_an_iterator_that_snapshot_returns_is_read_at_once_and_closed",
    ),
    _streamed(
        "parts-of-a-state-may-be-more-than-a-state",
        "dledger.machine.saving",
        "if size > STATE_BYTES_MAX:",
        "if False:",
        "test_parts_are_counted_as_they_come",
    ),
    _streamed(
        "a-state-that-failed-halfway-takes-its-space",
        "commitlog.files.system",
        "                GONE_FILES.remove(temporary)\n",
        "                pass\n",
        "test_parts_are_closed_whatever_happens",
    ),
    _streamed(
        "a-state-that-a-kill-cut-off-takes-its-space",
        "dledger.snapshots.prefix",
        "        folder.drop_half_made()\n",
        "",
        "test_a_process_that_is_killed_in_the_middle_loses_nothing",
    ),
    _streamed(
        "a-streamed-state-has-the-checksum-of-its-bytes-alone",
        "dledger.snapshots.file_head",
        "_CRC.pack(crc32_joined(crc32(begin), crc, size))",
        "_CRC.pack(crc)",
        "test_the_file_is_the_same_as_that_of_the_bytes",
    ),
    Mutant(
        "a-later-release-is-taken-for-rot",
        ("D2",),
        one_patch(
            "dledger.durable.double_slot",
            "if not whole and is_later(",
            "if False and is_later(",
        )
        + one_patch(
            "dledger.snapshots.state_versions", "VERSION < head.version < 1 << 8", "VERSION < 0"
        ),
        tests=(
            _LATER + "test_a_node_does_not_start_on_it_and_writes_nothing",
            _LATER + "test_tools_tell_it_as_that_and_write_nothing",
        ),
    ),
    Mutant(
        "a-start-writes-over-files-of-a-later-release",
        ("D2",),
        one_patch(
            "dledger.runtime.opening",
            "    refuse_later_files(files, folder)\n    found",
            "    found",
        ),
        tests=(_LATER + "test_a_node_does_not_start_on_it_and_writes_nothing",),
    ),
    Mutant(
        "a-machines-state-of-a-later-release-counts-as-whole",
        ("D7",),
        one_patch("dledger.machine.state_head", "beginning[: len(_MAGIC)] == _MAGIC", "False"),
        tests=(_LATER + "test_tools_tell_it_as_that_and_write_nothing",),
    ),
    Mutant(
        "a-groups-name-makes-its-host-a-store",
        ("R6",),
        one_patch(
            "cluster.commands.inspect",
            "return node.name == ROOT_PREFIX + owner.node_id or node.name != owner.group",
            "return True",
        ),
        tests=(_NAMES + "test_a_group_whose_name_a_former_release_took_is_opened",),
    ),
    Mutant(
        "a-group-may-have-the-name-of-a-nodes-file",
        ("R6",),
        one_patch(
            "dledger.runtime.folder_names",
            "return small != identity.FILE_NAME and not small.startswith(ROOT_PREFIX)",
            "return True",
        ),
        tests=(
            "tests/dledger/machine/test_host.py::test_a_name_that_is_no_folders",
            _BACKUP + "test_no_folder_is_made_beside_the_new_one",
        ),
    ),
    Mutant(
        "a-backup-believes-the-mirror-for-java-alone",
        ("R1",),
        one_patch("cluster.backup.node_log", "-1 if mark is None else mark.committed", "-1"),
        tests=(_BUSY + "test_what_is_not_known_to_be_committed_is_told_and_not_copied",),
    ),
    Mutant(
        "a-backup-leaves-entries-out-without-a-word",
        ("R1",),
        one_patch("cluster.commands.embedded_backup", "    if left:\n", "    if False:\n"),
        tests=(_BUSY + "test_what_is_not_known_to_be_committed_is_told_and_not_copied",),
    ),
    Mutant(
        "a-backup-has-entries-that-may-be-taken-back",
        ("R1",),
        one_patch(
            "cluster.commands.embedded_backup",
            "return Furthest(str(logs[at].folder), logs[at], committed[at])",
            "return Furthest(str(logs[at].folder), logs[at], 1 << 60)",
        ),
        tests=(_BUSY + "test_what_is_not_known_to_be_committed_is_told_and_not_copied",),
    ),
    Mutant(
        "a-backup-does-not-wait-for-a-program-that-runs",
        ("R1",),
        one_patch(
            "cluster.commands.embedded_backup",
            "if end > done.manifest.mark and _is_known_up_to(end, logs):",
            "if False:",
        ),
        tests=(_BUSY + "test_a_node_that_says_so_in_time_is_copied_whole",),
    ),
    Mutant(
        "groups-of-two-clusters-are-taken-for-replicas",
        ("R6",),
        one_patch(
            "cluster.commands.embedded_backup",
            "{log.identity.cluster_id for log in logs}) > 1:",
            "{log.identity.cluster_id for log in logs}) > 2:",
        ),
        tests=(_USES + "test_two_clusters_with_groups_of_one_name_are_not_taken_for_replicas",),
    ),
    Mutant(
        "a-restore-that-fails-leaves-what-it-made",
        ("R6",),
        one_patch(
            "cluster.move.new_folders", "for name in _names(folder) - names:", "for name in ():"
        ),
        tests=(_NEW + "test_a_backup_that_turns_out_damaged_leaves_no_folder",),
    ),
    Mutant(
        "a-folder-is-a-nodes-before-all-of-it-is-restored",
        ("R6",),
        one_patch(
            "cluster.backup.restoring",
            "data_dir=Path(raft.data_dir) / STAGING",
            "data_dir=Path(raft.data_dir)",
        ),
        tests=(
            _NEW + "test_one_that_is_killed_at_any_change_leaves_no_node_and_the_next_begins_anew",
        ),
    ),
    Mutant(
        "a-member-is-restored-with-a-name-that-no-node-may-have",
        ("R6",),
        one_patch(
            "cluster.commands.embedded_restore", "if wrong := node_name_error(name):", "if False:"
        ),
        tests=(_USES + "test_wrong_uses_write_nothing_and_say_what_to_do",),
    ),
    Mutant(
        "a-restored-log-meets-another-one-in-its-folder",
        ("R6",),
        one_patch(
            "cluster.commands.embedded_restore",
            "if not is_new(into):",
            "if False:",
        ),
        tests=(_USES + "test_wrong_uses_write_nothing_and_say_what_to_do",),
    ),
    Mutant(
        "files-of-a-machine-that-are-further-than-the-log-are-believed",
        ("R15",),
        one_patch(
            "dledger.machine.keeping",
            "            if index <= log.last.index:\n",
            "            if index > log.last.index:\n"
            "                return None\n"
            "            if index <= log.last.index:\n",
        ),
        tests=(_USES + "test_a_machine_that_keeps_its_state_goes_on_beside_a_restored_log",),
    ),
    Mutant(
        "a-version-that-rotted-is-taken-for-a-later-release",
        ("D8",),
        one_patch(
            "dledger.snapshots.state_versions",
            "if not is_right(file, head):",
            "if True:",
        ),
        tests=(_LATER + "test_a_state_whose_version_rots_does_not_look_like_a_later_release",),
    ),
)
