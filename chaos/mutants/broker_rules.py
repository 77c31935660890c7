"""Mutants of the broker's rules: clocks, offsets, followers, lanes, how bytes reach the disk."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

BROKER = (
    Mutant(
        "queue-offsets-survive-step-down",
        ("R9",),
        (Patch("cluster.core.queue_offsets", "        self._rows.clear()", "        pass"),),
        tests=(
            "tests/cluster/core/test_queue_offsets.py"
            "::test_a_new_leadership_starts_from_what_was_applied",
        ),
    ),
    Mutant(
        "follower-serves-bounds-and-not-found",
        ("R18",),
        (
            Patch(
                "cluster.broker.serving.router",
                "        if route.who is Who.LEADER:\n",
                "        if False:\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_three_nodes.py"
            "::test_a_follower_answers_found_by_itself_and_bounds_through_the_leader",
        ),
    ),
    Mutant(
        "store-time-follows-the-clock-back",
        ("R24",),
        (
            Patch(
                "cluster.core.store_time",
                "        if now_ms < self.last_ms:\n            return self.last_ms\n",
                "",
            ),
        ),
        tests=("tests/cluster/core/test_store_time.py::test_stamps_never_go_back",),
    ),
    Mutant(
        "store-time-is-not-bounded-by-the-group",
        ("R24",),
        (Patch("cluster.core.store_time", "            if ahead > 0:", "            if False:"),),
        tests=("tests/cluster/core/test_store_time.py::test_a_fast_clock_is_bounded_by_the_group",),
    ),
    Mutant(
        "every-offset-commit-is-an-entry",
        ("R25",),
        (Patch("cluster.core.offsets", "now >= _due_at(state)", "True"),),
        tests=("tests/cluster/core/test_offsets.py::test_commits_of_one_second_become_one_record",),
    ),
    Mutant(
        "a-pull-served-late-takes-the-group-back",
        ("R25",),
        (
            Patch(
                "cluster.broker.consume.consumer_requests",
                "    if request.advance_only:",
                "    if False:",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_consumers.py::test_a_pull_served_late_takes_no_group_back",
        ),
    ),
    Mutant(
        "one-lane-for-everything",
        ("L2",),
        (
            Patch(
                "dledger.runtime.transport",
                "bulk = kind in _BULK_KINDS",
                "bulk = True",
            ),
            Patch(
                "dledger.wire",
                "BULK_TYPES = frozenset(\n"
                "    {FrameType.APPEND, FrameType.APPEND_REPLY, FrameType.SNAPSHOT, "
                "FrameType.RANGE_REPLY}\n)",
                "BULK_TYPES = frozenset(_UNPACK)",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_lanes.py"
            "::test_l2_a_bulk_lane_that_is_stuck_holds_no_heartbeat_back",
        ),
    ),
    Mutant(
        "one-file-sync-through-the-mapping",
        ("R12",),
        (
            Patch(
                "commitlog.files",
                "        os.fdatasync(self._fd)",
                "        mmap.mmap(self._fd, self._size).flush()",
            ),
        ),
        tests=(
            "tests/architecture/test_disk_calls.py"
            "::test_a_sync_is_fdatasync_and_a_mapping_cannot_be_written",
        ),
    ),
    Mutant(
        "routes-wait-for-pysyncobj",
        ("R26",),
        (
            Patch(
                "cluster.nameserver.server",
                "from __future__ import annotations\n",
                "from __future__ import annotations\n\nimport pysyncobj\n",
            ),
        ),
        tests=(
            "tests/cluster/nameserver/test_without_pysyncobj.py"
            "::test_nothing_that_serves_has_loaded_it",
        ),
    ),
)
