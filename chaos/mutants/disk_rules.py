"""Mutants of requirement L5: a leader with an unhealthy disk hands the lead over, and does not get
it back at once.
"""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE = "dledger.core."
_ROOM = "tests/commitlog/test_room.py::test_whatever_finds_no_room_the_same_batch_goes_in_later"
_RULES = "tests/dledger/core/test_disk.py::test_"
_SPACE = "tests/dledger/replica/test_space_check.py::test_"
_STATE = "tests/dledger/snapshots/test_snapshots.py::test_"
_WATCH = "tests/dledger/replica/test_disk_watch.py::test_"


def _core(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_CORE + module, old, new),)


def _replica(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.replica.replica", old, new),)


def _watch(old: str, new: str) -> tuple[Patch, ...]:
    return (Patch("dledger.replica.disk_watch", old, new),)


DISKS = (
    Mutant(
        "a-found-mark-counts-what-is-not-synced",
        ("R2", "R3"),
        (Patch("dledger.log.lost_files", "    data.sync_all()", "    data.starts()"),),
        tests=(
            "tests/dledger/log/test_lost_files.py"
            "::test_what_a_mark_that_is_found_counts_is_on_disk",
        ),
    ),
    Mutant(
        "a-found-mark-counts-what-a-failed-sync-left",
        ("R3",),
        (
            Patch(
                "dledger.log.lost_files",
                "    data.write_again(end - UNSYNCED_MAX, end)\n",
                "",
            ),
        ),
        tests=(
            "tests/dledger/log/test_lost_files.py"
            "::test_what_a_failed_sync_left_is_on_disk_when_a_found_mark_counts_it",
        ),
    ),
    Mutant(
        "a-hole-below-a-found-mark-refuses-the-start",
        ("R1", "R2"),
        (Patch("dledger.log.recovery", "        if hole is not None:", "        if False:"),),
        tests=(
            "tests/dledger/log/test_lost_files.py"
            "::test_a_hole_below_the_mark_that_is_found_refuses_no_start",
        ),
    ),
    Mutant(
        "a-hole-is-cut-below-a-mark-that-was-moved",
        ("D8", "R2"),
        (
            Patch(
                "dledger.log.recovery",
                "hole = None if mark_file.is_made else",
                "hole = None if not options.forgets else",
            ),
            Patch(
                "dledger.log.lost_files",
                "        if found.mark is not None:\n",
                "        if found.mark is not None:\n"
                "            if lower is not None:\n"
                "                found.write_both(lower)\n",
            ),
        ),
        tests=(
            "tests/dledger/log/test_lost_files.py"
            "::test_a_hole_below_a_mark_of_its_own_refuses_the_start_of_a_node_that_forgot",
        ),
    ),
    Mutant(
        "truncation-gives-files-back",
        ("L5",),
        (
            Patch(
                "dledger.log.file_log",
                "        for file in files.data.zero(end, min(old.end, files.data.end)):\n",
                "        files.data.drop_after(end)\n"
                "        files.files_left()\n"
                "        for file in files.data.zero(end, min(old.end, files.data.end)):\n",
            ),
        ),
        tests=(_SPACE + "a_range_that_replaces_entries_finds_the_space_that_these_had",),
    ),
    Mutant(
        "what-frees-space-is-refused-on-a-full-disk",
        ("L5",),
        (Patch("dledger.core.leading", " and not frees_space:\n", ":\n"),),
        tests=(
            "tests/cluster/broker/test_retention.py::"
            "test_old_files_go_on_a_full_disk_where_messages_are_refused",
        ),
    ),
    Mutant(
        "a-sync-that-waits-for-a-thread-is-not-watched",
        ("L5",),
        (
            Patch(
                "dledger.runtime.disk_threads",
                "self.times.begin(work.kind, self._now())",
                'self.times.begin(work.kind, float("inf"))',
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_disk_threads.py::"
            "test_work_that_waits_for_a_thread_has_begun_for_who_watches",
        ),
    ),
    Mutant(
        "a-stalled-leader-stays",
        ("L5",),
        _core("disk", "(DiskHealth.LOW, DiskHealth.FULL, _STALLED)", "()"),
        tests=(
            _RULES + "a_leader_whose_disk_hangs_hands_over_and_what_was_under_way_is_decided",
            _RULES + "a_leader_without_room_hands_over_once",
        ),
        rows=("38",),
    ),
    Mutant(
        "a-stalled-leader-waits-for-its-successor",
        ("L5",),
        _core("transfer", "state.disk.health is DiskHealth.STALLED and ", "False and "),
        tests=(_RULES + "it_goes_although_no_follower_can_catch_up",),
    ),
    Mutant(
        "a-stalled-leader-goes-although-all-are",
        ("L5", "L2"),
        _core("transfer", " and _is_one_healthy(state)\n", "\n"),
        tests=(_RULES + "it_stays_while_no_voter_with_a_healthy_disk_is_heard",),
    ),
    Mutant(
        "a-stalled-disk-votes",
        ("L5", "D5"),
        _core(
            "election",
            "not membership.may_vote(state) or state.disk.health is DiskHealth.STALLED",
            "not membership.may_vote(state)",
        ),
        tests=(_RULES + "a_disk_that_hangs_votes_for_nobody",),
    ),
    Mutant(
        "a-stalled-disk-stands",
        ("L5", "D5"),
        _core(
            "election",
            "state.disk.health is DiskHealth.STALLED or state.disk.may_not_lead",
            "state.disk.may_not_lead",
        ),
        tests=(_RULES + "a_disk_that_hangs_does_not_stand",),
    ),
    Mutant(
        "an-unhealthy-disk-is-appointed",
        ("L5",),
        _core(
            "transfer",
            "is Role.FOLLOWER and state.disk.health is DiskHealth.GOOD",
            "is Role.FOLLOWER",
        ),
        tests=(_RULES + "leadership_is_not_handed_to_a_disk_that_is_not_healthy",),
    ),
    Mutant(
        "leadership-returns-to-an-unhealthy-disk",
        ("L5",),
        _core(
            "transfer",
            "    if progress.disk_health is not DiskHealth.GOOD:\n"
            "        return Reason.UNHEALTHY_DISK\n",
            "",
        ),
        tests=(_RULES + "leadership_is_not_handed_to_a_disk_that_is_not_healthy",),
    ),
    Mutant(
        "a-disk-that-recovers-stands-at-once",
        ("L5",),
        _core("disk", "state.config.unhealthy_wait", "0.0"),
        tests=(_RULES + "a_disk_that_recovers_stands_after_the_others",),
    ),
    Mutant(
        "a-full-disk-takes-proposals",
        ("L5",),
        _core("leading", "if (state.disk.health is _FULL or state.full_voters)", "if False"),
        tests=(
            _RULES + "a_leader_without_room_for_files_takes_no_proposals_and_stays_when_nobody_has",
        ),
    ),
    Mutant(
        "full-followers-take-proposals",
        ("L5",),
        _core("leading", "is _FULL or state.full_voters)", "is _FULL)"),
        tests=(
            _RULES + "full_disks_that_leave_no_majority_refuse_proposals_and_one_of_three_does_not",
        ),
    ),
    Mutant(
        "full-followers-end-the-lead",
        ("L5", "R5"),
        _core("leading", " or progress.disk_health is _FULL\n", "\n"),
        tests=(
            _RULES + "full_followers_that_get_no_further_leave_the_leader_in_place_and_reads_go_on",
        ),
    ),
    Mutant(
        "a-full-follower-is-sent-all-again-and-again",
        ("L5",),
        _core("leading", "    if progress.disk_health is _FULL:  #", "    if False:  #"),
        tests=(_RULES + "a_full_follower_is_sent_one_small_range_at_a_time",),
    ),
    Mutant(
        "a-new-leader-hears-of-a-full-disk-later",
        ("L5",),
        _core(
            "replication", "    if state.disk.health is not DiskHealth.GOOD:\n", "    if False:\n"
        ),
        tests=(_RULES + "a_new_leader_is_told_of_a_full_disk_at_once",),
    ),
    Mutant(
        "a-node-stands-that-cannot-write-its-first-entry",
        ("L5",),
        _core("election", " or state.disk.may_not_lead", ""),
        tests=(
            _RULES + "a_node_without_space_for_the_first_entry_of_a_leadership_does_not_stand",
            _SPACE + "a_node_leads_only_where_the_first_entry_of_a_leadership_finds_space",
        ),
    ),
    Mutant(
        "a-range-without-space-is-numbered",
        ("L5", "D5"),
        _replica("if follows and self._space", "if False and self._space"),
        tests=(_SPACE + "a_follower_without_space_takes_no_range_and_goes_on_by_itself",),
    ),
    Mutant(
        "a-proposal-without-space-is-numbered",
        ("L5", "D5"),
        _replica("if leads and self._space", "if False and self._space"),
        tests=(_SPACE + "a_leader_without_space_refuses_for_certain_and_serves_reads",),
    ),
    Mutant(
        "another-error-of-the-disk-is-taken-for-a-full-one",
        ("D5",),
        (
            Patch(
                "dledger.replica.space_check",
                "            if not is_out_of_space(error):\n"
                "                self._failed(str(error))\n"
                "                return False\n",
                "",
            ),
        ),
        tests=(_SPACE + "another_error_than_a_full_disk_ends_the_node",),
    ),
    Mutant(
        "a-full-disk-leaves-a-list-without-the-newest-configuration",
        ("R20",),
        (
            Patch(
                "dledger.durable.configurations",
                "        if not self._keep(noted) and ",
                "        if not self._keep(noted) and False and ",
            ),
        ),
        tests=(
            "tests/dledger/durable/test_configurations.py"
            "::test_a_full_disk_costs_the_file_and_the_next_start_reads_the_log",
        ),
    ),
    Mutant(
        "a-full-disk-leaves-queues-ahead-of-the-mark",
        ("L5",),
        (
            Patch(
                "commitlog.dispatch.dispatcher",
                "                self._cut_back()\n",
                "                pass\n",
            ),
        ),
        tests=(_ROOM,),
    ),
    Mutant(
        "a-full-disk-takes-a-part-of-the-keys",
        ("L5",),
        (
            Patch(
                "commitlog.index.index_service",
                "                self._drop(file)\n            raise\n",
                "                self._drop(file)\n",
            ),
        ),
        tests=(_ROOM,),
    ),
    Mutant(
        "a-burst-of-slow-syncs-moves-the-lead",
        ("L5",),
        _core(
            "disk",
            "    if state.now - state.slow_since < config.slow_sync_wait:\n        return False\n",
            "",
        ),
        tests=(_RULES + "slow_syncs_with_pauses_are_no_slow_disk",),
    ),
    Mutant(
        "a-slow-disk-leads-again-at-once",
        ("L5",),
        _core("disk", "event.health is _GOOD and _is_still_slow", "False and _is_still_slow"),
        tests=(
            _RULES + "a_leader_much_slower_than_others_for_long_hands_over_once_and_stands_back",
        ),
    ),
    Mutant(
        "a-state-without-room-ends-its-follower",
        ("L5",),
        (
            Patch(
                "dledger.replica.replica",
                '        if work.kind == "prepare" or is_sent_again(work, error):\n',
                '        if work.kind == "prepare":\n',
            ),
        ),
        tests=(_STATE + "a_follower_without_room_for_a_state_rests_and_goes_on_by_itself",),
    ),
    Mutant(
        "a-full-disk-is-not-seen",
        ("L5",),
        (
            Patch(
                "dledger.runtime.disk_check",
                "if isinstance(error, OSError) and is_out_of_space(error):",
                "if False:",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_disk_check.py"
            "::test_no_room_for_the_next_file_is_told_at_once_and_tried_again",
        ),
    ),
    Mutant(
        "mirrors-on-a-full-disk-stop-the-node",
        ("L5",),
        (
            Patch(
                "dledger.durable.mirrors",
                "                if not is_out_of_space(error):\n                    raise\n",
                "                raise\n",
            ),
        ),
        tests=(
            "tests/dledger/durable/test_mirrors.py"
            "::test_on_a_full_disk_they_stay_as_they_are_until_there_is_room",
        ),
    ),
    Mutant(
        "a-stall-is-not-seen",
        ("L5",),
        _watch("if waited >= self.stall_seconds:", "if waited < 0:"),
        tests=(_WATCH + "a_sync_that_does_not_come_back_is_a_stall_until_it_does",),
        rows=("38",),
    ),
    Mutant(
        "a-disk-is-trusted-as-soon-as-it-works",
        ("L5",),
        _watch("if now - self._failed_at < self._trust_seconds:", "if now < self._failed_at:"),
        tests=(_WATCH + "a_disk_is_trusted_again_after_long_without_trouble",),
    ),
)
