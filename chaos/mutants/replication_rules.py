"""Mutants of `dledger.core`: the entries in the log, their commitment, and reads."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE = "dledger.core."
_TESTS = "tests/dledger/core/"


def _core(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_CORE + module, old, new),)


REPLICATION = (
    Mutant(
        "a-follower-that-lost-entries-is-not-told",
        ("S7",),
        _core("leading", "        progress.rejected_settled(reply.prev_index)\n", ""),
        tests=(
            _TESTS + "test_margin.py"
            "::test_one_that_lost_what_it_acknowledged_is_told_and_is_not_believed_less",
        ),
    ),
    Mutant(
        "late-rejections-count-as-lost-entries",
        ("S7",),
        _core(
            "progress",
            "if is_open and self.probe_at is not None and self.probe_at != self.rejected_at:",
            "if is_open:",
        ),
        tests=(
            _TESTS + "test_margin.py"
            "::test_a_late_rejection_however_often_it_comes_is_none_of_a_lost_entry",
        ),
    ),
    Mutant(
        "rejections-count-behind-a-success",
        ("S7",),
        _core("progress", "if self.rejections and matched >= self.flushed:", "if False:"),
        tests=(
            _TESTS + "test_margin.py::test_rejections_before_and_after_a_success_are_not_added_up",
        ),
    ),
    Mutant(
        "append-of-old-term-accepted",
        ("S1",),
        _core(
            "replication",
            "    if message.term < state.term:\n",
            "    if message.term < state.term - 1000:\n",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_stale_leaders_are_refused_when_executed",
        ),
        seeds=5,
    ),
    Mutant(
        "follower-that-began-anew-not-probed",
        ("L3", "R4"),
        _core(
            "leading",
            "    if settled and reply.matched < progress.flushed and progress.mode is _REPLICATE:\n"
            "        progress.become_probe()\n",
            "",
        ),
        tests=(
            _TESTS + "test_replication.py"
            "::test_a_follower_that_began_anew_learns_the_commit_without_new_traffic",
        ),
    ),
    Mutant(
        "previous-term-not-checked",
        ("S1",),
        _core(
            "replication",
            "if state.log.term_at(message.prev.index) != message.prev.term:",
            "if state.log.term_at(message.prev.index) is None:",
        ),
        seeds=20,
        rows=("13",),
        tests=(
            "tests/chaos/mutants/test_directed.py::test_what_follows_an_entry_of_another_term_is_refused",
        ),
    ),
    Mutant(
        "truncate-without-conflict",
        ("S2",),
        _core(
            "replication",
            "    if agreed < message.last:\n        if agreed < state.log.last.index:\n"
            "            _truncate(state, agreed)\n        _append",
            "    if agreed < state.log.last.index:\n        _truncate(state, agreed)\n"
            "    if agreed < message.last:\n        _append",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_a_range_that_ends_earlier_drops_nothing",
        ),
        rows=("10",),
        seeds=5,
    ),
    Mutant(
        "no-truncation-on-conflict",
        ("S2",),
        _core(
            "replication",
            "        if agreed < state.log.last.index:\n            _truncate(state, agreed)\n",
            "        if agreed < state.log.last.index:\n            return\n",
        ),
        seeds=20,
        rows=("11",),
        tests=(
            "tests/dledger/core/test_replication.py::test_old_entries_are_never_committed_by_counting",
        ),
    ),
    Mutant(
        "truncation-below-commit-allowed",
        ("S3",),
        _core("replication", "    if index < state.commit:\n", "    if index < -1:\n"),
        tests=("tests/dledger/core/test_replication.py::test_dropping_committed_entries_halts",),
    ),
    Mutant(
        "commit-goes-back",
        ("S3",),
        _core("state", "        assert index >= self.commit, ", "        assert True, "),
        tests=(
            "tests/dledger/core/test_commit.py::test_commit_to_asserts_that_commit_never_goes_back",
        ),
    ),
    Mutant(
        "old-term-committed-by-counting",
        ("S4",),
        _core(
            "leading",
            "if index <= state.commit or state.log.term_at(index) != state.term:",
            "if index <= state.commit:",
        ),
        tests=("tests/dledger/core/test_replication.py::test_figure_8_exactly",),
        rows=("9",),
    ),
    Mutant(
        "no-noop-on-election",
        ("S4",),
        (
            Patch(
                _CORE + "leading",
                "    state.log.append(state.term, state.noop_index)\n"
                "    state.out.append(AppendNoop(state.noop_index, state.term))\n",
                "    state.noop_index = last.index\n",
            ),
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_a_group_elects_one_leader_and_it_opens_its_term_with_a_noop",
        ),
    ),
    Mutant(
        "acks-of-an-old-term-counted",
        ("S7",),
        _core(
            "node",
            "if message.term != state.term or state.role is not _LEADER:",
            "if state.role is not _LEADER:",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_acknowledgements_of_another_term_are_ignored",
        ),
        rows=("16",),
    ),
    Mutant(
        "follower-acks-before-fsync",
        ("D3",),
        _core(
            "replication",
            "    if message.when_written or state.flushed >= message.last:\n        _reply",
            "    state.flushed = max(state.flushed, message.last)\n    if True:\n        _reply",
        ),
        seeds=20,
        rows=("3",),
    ),
    Mutant(
        "heartbeat-answers-with-written-index",
        ("D3",),
        _core(
            "replication",
            "    flushed = _acknowledged(state)\n    state.send(\n        message",
            "    flushed = state.matched\n    state.send(\n        message",
        ),
        seeds=20,
        rows=("3",),
    ),
    Mutant(
        "leader-counts-itself-before-fsync",
        ("D4",),
        _core(
            "leading",
            "    flushed[state.me] = state.flushed\n",
            "    flushed[state.me] = state.log.last.index\n",
        ),
        seeds=20,
        rows=("4",),
    ),
    Mutant(
        "written-counts-as-flushed",
        ("D3", "D4"),
        _core(
            "leading",
            "{peer: p.flushed for peer, p in state.progress.items()}",
            "{peer: p.matched for peer, p in state.progress.items()}",
        ),
        seeds=20,
    ),
    Mutant(
        "commit-beyond-what-matched",
        ("R4",),
        _core(
            "replication",
            "commit = min(leader_commit, state.matched)",
            "commit = min(leader_commit, state.log.last.index)",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_commit_never_runs_ahead_of_what_matched_this_leader[heartbeat]",
        ),
        rows=("18",),
        seeds=5,
    ),
    Mutant(
        "match-is-the-followers-last-index",
        ("S2", "S7"),
        _core(
            "replication",
            "    state.matched = max(state.matched, message.last)\n",
            "    state.matched = state.log.last.index\n",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_old_entries_are_never_committed_by_counting",
        ),
        rows=("19",),
        seeds=5,
    ),
    Mutant(
        "lost-append-never-sent-again",
        ("L3",),
        _core(
            "leading",
            "    elif not settled and state.now",
            "    elif False and state.now",
        ),
        tests=(
            "tests/dledger/core/test_replication.py::test_any_single_lost_message_is_made_up_for_without_new_traffic",
        ),
    ),
    Mutant(
        "lost-probe-never-sent-again",
        ("L3",),
        _core("leading", "            progress.probe_at = None\n", ""),
        tests=(
            "tests/dledger/core/test_replication.py::test_old_entries_are_never_committed_by_counting",
        ),
    ),
    Mutant(
        "window-not-bounded",
        ("L3",),
        _core(
            "progress",
            "            len(self.in_flight) < config.window_frames_max\n"
            "            and self.in_flight_bytes < config.window_bytes_max\n",
            "            True\n",
        ),
        tests=("tests/dledger/core/test_replication.py::test_windows_bound_what_is_in_flight",),
    ),
    Mutant(
        "failed-disk-goes-on",
        ("D5",),
        _core(
            "node",
            "        if state.role is _FAILED:\n            rule =",
            "        if state.role is _FAILED and False:\n            rule =",
        ),
        tests=("tests/dledger/core/test_election.py::test_a_failed_disk_ends_everything_at_once",),
    ),
)

READS = (
    Mutant(
        "read-without-a-round",
        ("S9", "R18"),
        _core(
            "reads",
            "        if read.round and read.round <= state.round_confirmed:\n",
            "        if read.round:\n",
        ),
        tests=(
            "tests/dledger/core/test_reads.py::test_a_read_is_ready_after_a_majority_confirmed",
        ),
        rows=("21",),
        seeds=5,
    ),
    Mutant(
        "read-before-the-noop",
        ("S9",),
        _core(
            "reads",
            "    if state.commit < state.noop_index:\n",
            "    if False:\n",
        ),
        tests=(
            "tests/dledger/core/test_reads.py::test_reads_before_the_noop_is_committed_wait_for_it",
        ),
        rows=("22",),
        seeds=5,
    ),
    Mutant(
        "read-confirmed-by-an-earlier-round",
        ("S9",),
        _core(
            "reads",
            "PendingRead(read_id, origin, state.commit, state.round + 1)",
            "PendingRead(read_id, origin, state.commit, state.round)",
        ),
        tests=(
            "tests/dledger/core/test_reads.py::test_a_read_is_ready_after_a_majority_confirmed",
        ),
        rows=("23",),
    ),
    Mutant(
        "a-proof-is-as-old-as-its-answer",
        ("S9",),
        (
            Patch(
                "dledger.replica.replica",
                "        self._reads[read_id] = self._freshness.proving(ready, now)\n",
                "        self._reads[read_id] = lambda error: "
                "self._freshness.proving(ready, self._now)(error)\n",
            ),
        ),
        tests=("tests/dledger/replica/test_replica.py::test_a_proof_is_as_old_as_its_question",),
    ),
    Mutant(
        "a-linearizable-read-is-served-by-an-earlier-proof",
        ("S9",),
        (
            Patch(
                "dledger.replica.freshness",
                "staleness > 0.0 and now - self.proved_at <= staleness",
                "now - self.proved_at <= staleness + 1.0",
            ),
        ),
        tests=(
            "tests/dledger/replica/test_replica.py::test_a_read_that_may_be_old_is_served_by_what_was_proved",
        ),
    ),
    Mutant(
        "a-follower-reads-at-its-own-commit",
        ("S9", "R18"),
        _core(
            "reads",
            "ReadReady(reply.read_id, reply.index)",
            "ReadReady(reply.read_id, state.commit)",
        ),
        rows=("36",),
        seeds=5,
    ),
    Mutant(
        "rejection-confirms-a-read",
        ("S9", "S7"),
        _core(
            "replication",
            "    flushed = _acknowledged(state)\n    state.send(\n        message",
            "    else:\n        answered = message.round\n"
            "    flushed = _acknowledged(state)\n    state.send(\n        message",
        ),
        argued=(
            "A refused heartbeat is answered in the newer term, and the leader steps down at that "
            "answer before it looks at the round; the round in it decides nothing."
        ),
        rows=("23",),
    ),
    Mutant(
        "read-answered-by-a-leader-of-another-term",
        ("S9",),
        _core(
            "reads",
            "    if state.role is Role.LEADER and request.term == state.term:\n",
            "    if state.role is Role.LEADER:\n",
        ),
        argued=(
            "The answer is a read index that a leader proves after the question was asked; in "
            "whichever term it was asked, that index is linearizable."
        ),
    ),
)
