"""Mutants of the broker's rules: clocks, offsets, followers, lanes, how bytes reach the disk."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_OFFSETS = "tests/cluster/core/test_offsets.py::"

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
                "cluster.broker.kernel.net.router",
                "        if handler.who is Who.LEADER:\n",
                "        if False:\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_three_nodes.py"
            "::test_a_follower_answers_found_by_itself_and_bounds_through_the_leader",
        ),
        rows=("36",),
    ),
    Mutant(
        "a-kept-piece-holds-what-is-not-committed",
        ("R18",),
        (
            Patch(
                "cluster.broker.kernel.read.verified_pieces",
                "self._store.read_range(first, self._applied(), ",
                "self._store.read_range(first, self._store.last.index, ",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_verified_pieces.py::test_what_is_not_applied_is_never_given",
        ),
    ),
    Mutant(
        "a-checkpoint-ahead-of-the-log-is-believed",
        ("S9", "R15"),
        (
            Patch(
                "cluster.broker.kernel.apply.derived",
                "            if not store.first_index <= index <= store.last.index or "
                "position > reached:\n"
                "                return False\n"
                "            return store.id_of(index).term == term\n",
                "            return True\n",
            ),
        ),
        tests=(
            "tests/cluster/broker/test_derived.py"
            "::test_offsets_are_not_ahead_of_a_log_that_lost_its_end",
        ),
        rows=("37",),
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
        (
            Patch(
                "dledger.runtime.group_clock",
                "int(self._between(self._clock.time_ms(), ALLOWANCE_MS))",
                "self._clock.time_ms()",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_group_clock.py::test_a_wrong_clock_is_bounded_by_the_group",
        ),
    ),
    Mutant(
        "time-passes-by-a-clock-that-jumps",
        ("R24",),
        (
            Patch(
                "dledger.runtime.group_clock",
                "        if abs(apart - self._apart) > JUMP_MS:\n",
                "        if False:\n",
            ),
        ),
        tests=("tests/dledger/runtime/test_group_clock.py::test_both_clocks_may_jump_at_once",),
    ),
    Mutant(
        "one-odd-clock-moves-the-group",
        ("R24",),
        (
            Patch(
                "dledger.runtime.group_clock",
                "self._low, self._high = rest[middle - 1 : middle + 1]",
                "self._low, self._high = rest[0], rest[1]",
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_group_clock.py::"
            "test_one_odd_peer_does_not_move_a_sound_clock",
        ),
    ),
    Mutant(
        "an-old-measure-puts-a-clock-forward",
        ("R24",),
        (
            Patch(
                "dledger.runtime.group_clock", " and now - self._measured_at <= FRESH_SECONDS", ""
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_group_clock.py::"
            "test_a_fast_monotonic_clock_puts_nothing_forward",
        ),
    ),
    Mutant(
        "whatever-comes-back-is-a-round-trip",
        ("R24",),
        (
            Patch(
                "dledger.runtime.group_clock", "if 0 <= trip <= ROUND_TRIP_SECONDS_MAX:", "if True:"
            ),
        ),
        tests=(
            "tests/dledger/runtime/test_group_clock.py::"
            "test_an_echo_of_the_process_before_tells_nothing",
        ),
    ),
    Mutant(
        "every-offset-commit-is-an-entry",
        ("R25",),
        (Patch("cluster.core.offsets", "state.taken_at + RECORD_INTERVAL_SECONDS", "_AT_ONCE"),),
        tests=(_OFFSETS + "test_commits_of_one_second_become_one_record",),
    ),
    Mutant(
        "all-offset-commits-of-a-second-go-into-one-record",
        ("R25", "R27"),
        (Patch("cluster.core.offsets", "if len(state.wishes) > self._rows_max:", "if False:"),),
        tests=(_OFFSETS + "test_what_one_record_has_no_space_for_goes_with_the_next_one",),
    ),
    Mutant(
        "what-a-full-record-has-no-space-for-is-forgotten",
        ("R25",),
        (
            Patch(
                "cluster.core.offsets",
                "            for key in first:\n                del state.wishes[key]\n",
                "            state.wishes = {}\n",
            ),
        ),
        tests=(_OFFSETS + "test_what_one_record_has_no_space_for_goes_with_the_next_one",),
    ),
    Mutant(
        "who-waits-for-an-offset-is-told-behind-the-first-of-several-records",
        ("R25",),
        (
            Patch(
                "cluster.core.offsets",
                "            state.in_flight = first\n",
                "            state.in_flight = first\n"
                "            state.in_flight_waiters, state.waiters = state.waiters, []\n",
            ),
        ),
        tests=(_OFFSETS + "test_what_one_record_has_no_space_for_goes_with_the_next_one",),
    ),
    Mutant(
        "a-row-of-offsets-counts-for-half-its-size",
        ("R25", "R27"),
        (Patch("cluster.core.offsets", "ROW_SIZE_MAX = 300", "ROW_SIZE_MAX = 150"),),
        tests=(_OFFSETS + "test_no_row_is_larger_than_its_share_of_a_record",),
    ),
    Mutant(
        "a-flush-of-offsets-keeps-its-place-of-the-next-second",
        ("R25",),
        (Patch("cluster.core.offsets", "due < state.queued:", "state.queued == _NEVER:"),),
        tests=(_OFFSETS + "test_a_flush_does_not_wait_for_the_second",),
    ),
    Mutant(
        "a-group-whose-record-was-refused-has-no-place",
        ("R25",),
        (
            Patch(
                "cluster.core.offsets",
                "state.in_flight_waiters, state.urgent = {}, [], False\n"
                "        self._enqueue(state)\n",
                "state.in_flight_waiters, state.urgent = {}, [], False\n",
            ),
        ),
        tests=(_OFFSETS + "test_a_record_refused_in_a_move_is_written_again_with_newer_wishes",),
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
                "dledger.wire.messages",
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
                "commitlog.files.system",
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
