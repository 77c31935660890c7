"""Mutants that keep state beyond its time, or accept answers to an earlier incarnation."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.twin import Twin
from chaos.mutants.twins import replica as replica_twins
from chaos.mutants.twins import spans

_SPANS = "tests/dledger/core/test_spans.py::"
_END = "State.end"

_STATE_TAKEN = (
    Twin(
        "dledger.replica.replica",
        "Replica._state_taken",
        replica_twins.state_taken_beside_what_waits,
    ),
)

SPANS = (
    Mutant(
        "progress-of-an-earlier-leadership",
        ("S5",),
        (
            Twin("dledger.core.state", _END, spans.end_but_for_progress),
            Twin("dledger.core.leading", "_views", spans.views_of_an_earlier_leadership),
        ),
        tests=(_SPANS + "test_what_followers_told_an_earlier_leadership_commits_nothing",),
    ),
    Mutant(
        "progress-outlives-its-leadership",
        ("S5",),
        (Twin("dledger.core.state", _END, spans.end_but_for_progress),),
        tests=(_SPANS + "test_a_leadership_that_ends_leaves_nothing[check-quorum]",),
    ),
    Mutant(
        "slowness-outlives-its-leadership",
        ("L5",),
        (Twin("dledger.core.state", _END, spans.end_but_for_slow_since),),
        tests=(
            "tests/dledger/core/test_disk.py"
            "::test_slow_syncs_of_an_earlier_leadership_are_not_counted_in_the_next",
        ),
    ),
    Mutant(
        "matched-survives-a-term",
        ("R4",),
        (Twin("dledger.core.state", _END, spans.end_but_for_matched),),
        tests=(
            "tests/dledger/core/test_replication.py::test_commit_never_runs_ahead_of_what_matched_this_leader[heartbeat]",
        ),
    ),
    Mutant(
        "an-appointment-outlives-its-candidacy",
        ("L1",),
        (Twin("dledger.core.state", _END, spans.end_but_for_appointed),),
        tests=(_SPANS + "test_an_appointment_counts_for_one_candidacy",),
    ),
    Mutant(
        "configurations-of-entries-that-a-state-replaced",
        ("R20",),
        (Twin("dledger.core.membership", "taken_over", spans.taken_over_beside_what_was),),
        tests=(
            "tests/dledger/core/test_snapshots.py"
            "::test_a_whole_snapshot_takes_the_place_of_configurations_in_the_log",
        ),
    ),
    Mutant(
        "who-is-removed-by-what-is-not-committed-does-not-vote",
        ("S11",),
        (Twin("dledger.core.membership", "may_vote", spans.may_vote_if_named),),
        tests=(
            "tests/dledger/core/test_membership.py"
            "::test_a_node_votes_whom_an_uncommitted_entry_removes_and_not_when_it_is_committed",
        ),
    ),
    Mutant(
        "what-waits-is-acknowledged-by-another-state",
        ("S8",),
        _STATE_TAKEN,
        tests=(
            "tests/dledger/snapshots/test_snapshots.py"
            "::test_what_waits_is_unknown_when_a_state_takes_the_place_of_the_log",
        ),
    ),
    Mutant(
        "what-waits-is-acknowledged-by-a-state-for-damage",
        ("S8",),
        _STATE_TAKEN,
        tests=(
            "tests/dledger/repair/test_state_for_damage.py"
            "::test_what_waits_is_unknown_when_a_state_is_taken_for_damage",
        ),
    ),
    Mutant(
        "what-is-flushed-meanwhile-is-not-marked-before-a-vote",
        ("R1",),
        (Twin("dledger.replica.disk_work", "DiskWork._mark_again", replica_twins.mark_once),),
        tests=(
            "tests/dledger/replica/test_replica.py::test_what_is_flushed_meanwhile_is_marked_before_a_vote",
        ),
    ),
    Mutant(
        "numbers-of-questions-begin-anew",
        ("S9",),
        (
            Twin(
                "dledger.replica.request_ids", "numbers_from", replica_twins.numbers_that_begin_anew
            ),
        ),
        tests=(
            "tests/dledger/replica/test_request_ids.py"
            "::test_the_answer_to_a_read_before_a_restart_serves_none_behind_it",
            "tests/chaos/sim/test_former_processes.py"
            "::test_a_read_after_a_restart_is_not_served_by_the_answer_to_one_before",
        ),
        seeds=20,
    ),
    Mutant(
        "each-start-draws-the-same-numbers",
        ("S9",),
        (
            Twin(
                "dledger.replica.request_ids", "draw_first_id", replica_twins.draw_the_same_first_id
            ),
        ),
        tests=(
            "tests/dledger/replica/test_request_ids.py"
            "::test_each_start_of_a_node_draws_where_its_numbers_begin",
        ),
    ),
)
