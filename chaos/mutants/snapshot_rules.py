"""Mutants of snapshots and deletion: the entries that may go, and the state that may replace them
(R15, R16, L4)."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch, one_patch

_CORE = "tests/dledger/core/test_snapshots.py::"
_PROGRESS = "tests/dledger/core/test_progress.py::"
_REPLICA = "tests/dledger/snapshots/test_snapshots.py::"
_NEED = "tests/dledger/repair/test_state_for_damage.py::"
_FILES = "tests/dledger/snapshots/test_snapshot_files.py::"
_RESUMED = (
    "tests/dledger/snapshots/test_resumed_join.py::test_power_cuts_at_every_chunk_of_a_small_log"
)
_LOG = "tests/dledger/log/test_log_prefix.py::"
_LOST = "tests/dledger/log/test_lost_start.py::"
_BROKER = "tests/cluster/broker/test_retention.py::"


SNAPSHOTS = (
    Mutant(
        "files-go-without-a-state",
        ("R15",),
        one_patch(
            "dledger.snapshots.prefix",
            "        self.folder.prove(start)\n        task",
            "        task",
        ),
        tests=(_REPLICA + "test_nothing_is_deleted_without_the_state_that_it_led_to",),
    ),
    Mutant(
        "files-go-before-they-are-decided",
        ("R15",),
        one_patch(
            "dledger.snapshots.prefix",
            "        if start.index > commit:\n            return None\n",
            "",
        ),
        tests=(_REPLICA + "test_nothing_is_deleted_that_is_not_known_to_be_decided",),
    ),
    Mutant(
        "files-go-before-the-flush-mark-has-passed",
        ("R1", "R15"),
        one_patch(
            "dledger.log.log_prefix",
            "if min(self._flush.mark.index, self._flush.mark_file.older.index) <= start.index:",
            "if False:",
        ),
        tests=(_LOG + "test_nothing_goes_that_the_durable_mark_has_not_passed_or_inside_a_file",),
    ),
    Mutant(
        "files-go-when-one-slot-of-the-mark-has-passed",
        ("R15",),
        one_patch(
            "dledger.log.log_prefix",
            "min(self._flush.mark.index, self._flush.mark_file.older.index)",
            "self._flush.mark.index",
        ),
        tests=(_LOG + "test_a_rotten_slot_of_the_mark_leaves_one_that_names_what_is_there",),
    ),
    Mutant(
        "files-go-before-the-new-beginning-is-written",
        ("R15",),
        one_patch(
            "dledger.log.log_prefix",
            "            log_start.write(self._files, self._folder, self.start, staging=staging)\n",
            "            drop_files(self._files, self._folder, self.start, self._options)\n"
            "            log_start.write(self._files, self._folder, self.start, staging=staging)\n",
        ),
        tests=(
            _LOG + "test_a_power_cut_at_every_operation_of_a_deletion_leaves_the_old_or_the_new"
            "_beginning",
        ),
    ),
    Mutant(
        "a-lost-beginning-is-taken-for-the-first-one",
        ("R20", "R15"),
        one_patch(
            "dledger.log.recovery",
            "            log_start.refuse_lost(files, folder, start, options)\n",
            "",
        ),
        tests=(
            _LOST + "test_both_files_are_lost_and_no_node_starts",
            _LOST + "test_both_files_are_older_and_no_node_starts",
        ),
    ),
    Mutant(
        "an-empty-log-does-not-say-behind-which-entry",
        ("R20", "R2"),
        one_patch(
            "dledger.log.log_start",
            "    if mark is not None and mark.position < 0:\n",
            "    if False:\n",
        ),
        tests=(_LOST + "test_a_state_is_installed_behind_an_older_beginning",),
    ),
    Mutant(
        "one-file-says-where-a-log-begins",
        ("R20",),
        one_patch(
            "dledger.log.log_start",
            "there = [name for name in FILE_NAMES if",
            "there = [name for name in FILE_NAMES[:1] if",
        ),
        tests=(_LOST + "test_one_file_is_lost_and_the_other_one_counts",),
    ),
    Mutant(
        "an-older-copy-says-where-a-log-begins",
        ("R20",),
        one_patch(
            "dledger.log.log_start",
            "        return max(found, key=lambda start: start.index)\n",
            "        return found[0]\n",
        ),
        tests=(_LOST + "test_the_newest_copy_counts",),
    ),
    Mutant(
        "a-beginning-that-one-file-lost-stays-lost-there",
        ("R20",),
        one_patch(
            "dledger.log.recovery",
            "                log_start.settle(files, folder, start, staging=staging)\n",
            "                pass\n",
        ),
        tests=(_LOST + "test_one_file_is_lost_and_the_other_one_counts",),
    ),
    Mutant(
        "a-log-that-is-being-emptied-is-noted-twice",
        ("R20", "L4"),
        one_patch(
            "dledger.log.log_start",
            "    if not start.emptied:\n        settle",
            "    if True:\n        settle",
        ),
        tests=(_LOST + "test_a_full_disk_leaves_no_order_to_empty_the_log",),
    ),
    Mutant(
        "a-new-log-begins-among-the-old-files",
        ("L4",),
        one_patch(
            "dledger.log.log_prefix",
            "self._restart(replace(start, emptied=True))",
            "self._restart(start)",
        ),
        tests=(
            _LOG + "test_a_power_cut_at_every_operation_of_a_new_beginning_leaves_all_or_nothing",
        ),
    ),
    Mutant(
        "good-data-goes-for-a-snapshot",
        ("L4", "S2"),
        (
            Patch(
                "dledger.core.snapshots",
                "    if _has(state, message.anchor):\n",
                "    if False:\n",
            ),
            Patch("dledger.core.snapshots", "    if _has(state, anchor):\n", "    if False:\n"),
        ),
        tests=(_CORE + "test_a_follower_with_the_anchor_keeps_its_log",),
        rows=("30",),
    ),
    Mutant(
        "a-state-for-damage-takes-good-data-along",
        ("L4", "S2"),
        one_patch(
            "dledger.core.snapshots",
            "    elif state.log.term_at(anchor.index) == anchor.term:\n",
            "    elif False:\n",
        ),
        tests=(_CORE + "test_one_in_need_takes_the_state_and_keeps_what_is_behind_it",),
    ),
    Mutant(
        "a-state-that-is-being-deleted-is-sent",
        ("L4",),
        one_patch("dledger.snapshots.prefix", " or start.position < self._going:\n", ":\n"),
        tests=(
            "tests/dledger/snapshots/test_snapshots.py::test_a_state_that_is_just_being_deleted_is_not_sent",
        ),
    ),
    Mutant(
        "a-state-for-damage-is-not-asked-for",
        ("L4",),
        one_patch("dledger.repair.repair", "            self._ask_for_state()\n", ""),
        tests=(_NEED + "test_a_replica_that_applies_nothing_behind_its_damage_is_given_a_state",),
    ),
    Mutant(
        "a-state-for-damage-goes-to-the-log-alone",
        ("R15",),
        one_patch(
            "dledger.snapshots.prefix", "        if start.index > applied:\n", "        if False:\n"
        ),
        tests=(_NEED + "test_a_replica_that_applies_nothing_behind_its_damage_is_given_a_state",),
    ),
    Mutant(
        "a-leader-in-need-of-a-state-stays",
        ("L4",),
        one_patch(
            "dledger.core.snapshots",
            "        transfer.hand_to(state, event.holder)\n",
            "        pass\n",
        ),
        tests=(_CORE + "test_a_leader_in_need_of_a_state_hands_over_to_who_has_it",),
    ),
    Mutant(
        "entries-are-applied-to-a-state-that-is-lost",
        ("R15",),
        one_patch("dledger.repair.repair", " if self.lacking < 0 else Index(first - 1)\n", "\n"),
        tests=(_NEED + "test_a_replica_whose_state_is_lost_starts_without_and_is_sent_it",),
    ),
    Mutant(
        "a-lost-state-is-not-asked-for",
        ("L4",),
        one_patch(
            "dledger.repair.repair", "            self._need_state(self.lacking, None)\n", ""
        ),
        tests=(_NEED + "test_a_replica_whose_state_is_lost_starts_without_and_is_sent_it",),
    ),
    Mutant(
        "a-leader-whose-state-is-lost-stays",
        ("L4",),
        one_patch(
            "dledger.core.transfer",
            "    if to is None:\n        resign(state)\n    elif",
            "    if to is not None and",
        ),
        tests=(_NEED + "test_a_leader_whose_state_is_lost_hands_over",),
    ),
    Mutant(
        "a-node-alone-starts-without-its-state",
        ("R15",),
        one_patch(
            "cluster.broker.kernel.apply.log_beginning",
            "            if not self._is_sent:\n",
            "            if False:\n",
        ),
        tests=(_BROKER + "test_a_node_alone_does_not_start_without_its_state",),
    ),
    Mutant(
        "files-go-before-they-are-applied",
        ("R15",),
        one_patch(
            "dledger.replica.replica", "min(self.node.commit, self.applied)", "self.node.commit"
        ),
        tests=(_NEED + "test_what_is_not_applied_is_not_deleted",),
        rows=("30",),
    ),
    Mutant(
        "a-state-that-found-no-room-is-lost",
        ("R15",),
        one_patch(
            "cluster.broker.kernel.apply.log_beginning",
            "        taken = tuple(self._taken)\n",
            "        taken, self._taken = tuple(self._taken), []\n",
        ),
        tests=(
            "tests/cluster/broker/test_log_beginning.py"
            "::test_a_state_that_found_no_room_is_saved_when_there_is_some",
        ),
    ),
    Mutant(
        "a-rotten-snapshot-is-taken",
        ("D7",),
        one_patch("dledger.snapshots.snapshot_files", "right = crc == wanted.crc", "right = True"),
        tests=(_REPLICA + "test_rot_on_the_way_is_found_and_the_snapshot_begun_again",),
    ),
    Mutant(
        "a-state-that-was-not-right-is-sent-again-unread",
        ("D7",),
        one_patch(
            "dledger.snapshots.prefix", "            self.folder.doubt(start.position)\n", ""
        ),
        tests=(_FILES + "test_a_state_that_a_peer_asks_for_anew_is_read_before_it_is_sent_again",),
    ),
    Mutant(
        "a-state-is-held-proven-when-it-is-saved-anew",
        ("D7",),
        one_patch(
            "dledger.snapshots.snapshot_files",
            "        self._proven.pop(start.position, None)\n        self._save(",
            "        self._save(",
        ),
        tests=(
            _FILES + "test_what_was_proven_once_is_read_again_when_it_may_have_changed[saved anew]",
        ),
    ),
    Mutant(
        "a-killed-receiver-begins-again",
        ("L4",),
        one_patch(
            "dledger.snapshots.snapshot_files",
            "part[:2] == (wanted, behind)",
            "part[:2] == (wanted, -1)",
        ),
        tests=(
            _REPLICA + "test_a_follower_killed_at_every_chunk_goes_on_behind_the_last_one",
            _RESUMED + "[state-and-frames]",
        ),
    ),
    Mutant(
        "a-start-keeps-nothing-behind-the-flush-mark",
        ("L4",),
        one_patch(
            "dledger.log.recovery",
            "    for piece in _valid_pieces(state, options):\n",
            "    for piece in list[Piece]():\n",
        ),
        tests=(_RESUMED + "[frames]",),
    ),
    Mutant(
        "who-catches-up-takes-the-whole-window-under-load",
        ("L4",),
        one_patch(
            "dledger.core.progress",
            "        self.pace = max(PACE_MIN, GAIN * written / seconds) if written else None\n",
            "        self.pace = None\n",
        ),
        tests=(_PROGRESS + "test_a_few_messages_a_second_do_not_make_it_wait",),
    ),
    Mutant(
        "the-group-goes-with-the-entries-that-made-it",
        ("R20",),
        one_patch(
            "dledger.core.snapshots",
            "    state.initial = configuration_at(state, event.anchor.index)\n",
            "",
        ),
        tests=(_CORE + "test_the_group_outlives_the_entries_that_made_it",),
    ),
    Mutant(
        "retention-forgets-who-waits",
        ("R16",),
        one_patch(
            "cluster.broker.admin.retention",
            "self._spare_followers(self._spare_deferred(self._expired()))",
            "self._spare_followers(self._expired())",
        ),
        tests=(_BROKER + "test_what_a_delayed_message_waits_for_stays",),
    ),
    Mutant(
        "a-live-follower-is-not-waited-for",
        ("L4",),
        one_patch(
            "cluster.broker.admin.retention",
            "if missing is None or missing >= position:",
            "if True:",
        ),
        tests=(_BROKER + "test_a_live_follower_that_lags_is_given_time",),
    ),
    Mutant(
        "queues-begin-at-0-behind-a-snapshot",
        ("R15", "R18"),
        one_patch(
            "cluster.broker.kernel.apply.log_beginning",
            "                queue.begin_at(end)\n",
            "                pass\n",
        ),
        tests=(_BROKER + "test_old_files_go_and_the_rest_is_served_also_after_a_restart",),
    ),
)
