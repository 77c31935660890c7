"""Mutants of `dledger.core`: elections."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE = "dledger.core."
_TESTS = "tests/dledger/core/"


def _core(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_CORE + module, old, new),)


ELECTION = (
    Mutant(
        "vote-reply-before-fsync",
        ("D1",),
        _core(
            "state",
            "self.out.append(Send(to, message, self.hard_sequence))",
            "self.out.append(Send(to, message, 0))",
        ),
        seeds=20,
        rows=("1",),
    ),
    Mutant(
        "vote-not-persisted",
        ("D1", "S7"),
        _core(
            "election",
            "            state.voted_for = request.sender\n            state.persist()",
            "            state.voted_for = request.sender",
        ),
        tests=("tests/dledger/core/test_election.py::test_one_vote_a_term",),
        rows=("1",),
        seeds=5,
    ),
    Mutant(
        "term-not-persisted",
        ("D1",),
        _core(
            "election",
            "        state.end(Span.TERM)\n        state.persist()\n    state.end",
            "        state.end(Span.TERM)\n    state.end",
        ),
        seeds=20,
        rows=("2",),
    ),
    Mutant(
        "own-vote-before-fsync",
        ("D1",),
        _core(
            "election",
            "    state.appointed = appointed\n    state.persist()",
            "    state.votes = {state.me: True}\n    state.persist()",
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_own_vote_counts_only_when_it_is_on_disk",
        ),
        rows=("1",),
    ),
    Mutant(
        "second-vote-in-a-term",
        ("S7",),
        _core("election", "        and state.voted_for in (None, request.sender)\n", ""),
        seeds=20,
        rows=("15",),
    ),
    Mutant(
        "vote-without-log-check",
        ("S6",),
        _core(
            "election",
            "        and state.voted_for in (None, request.sender)\n"
            "        and request.last >= state.log.last\n",
            "        and state.voted_for in (None, request.sender)\n",
        )
        + _core(
            "election",
            "granted = request.term > state.term and request.last >= state.log.last",
            "granted = request.term > state.term",
        ),
        seeds=20,
        rows=("14",),
    ),
    Mutant(
        "vote-by-length-only",
        ("S6",),
        _core(
            "election",
            "        and state.voted_for in (None, request.sender)\n"
            "        and request.last >= state.log.last\n",
            "        and state.voted_for in (None, request.sender)\n"
            "        and request.last.index >= state.log.last.index\n",
        )
        + _core(
            "election",
            "granted = request.term > state.term and request.last >= state.log.last",
            "granted = request.term > state.term and request.last[1] >= state.log.last[1]",
        ),
        tests=(
            "tests/chaos/mutants/test_directed.py::test_a_longer_log_of_an_older_term_gets_no_vote",
        ),
        rows=("14",),
        seeds=10,
    ),
    Mutant(
        "majority-off-by-one",
        ("S4", "S7"),
        _core("quorum", "return len(voters) // 2 + 1", "return len(voters) // 2"),
        seeds=20,
        rows=("17",),
    ),
    Mutant(
        "stale-votes-counted",
        ("S7",),
        _core(
            "election",
            "if state.role is not wanted or reply.request_term != running:",
            "if state.role is not wanted:",
        ),
        tests=(
            "tests/chaos/mutants/test_directed.py::test_a_vote_of_an_earlier_candidacy_does_not_count",
        ),
        rows=("16",),
    ),
    Mutant(
        "votes-counted-per-reply",
        ("S7",),
        (
            Patch(
                _CORE + "election",
                "    state.votes[reply.sender] = reply.granted\n",
                "    state.votes[NodeId(f'{reply.sender}{len(state.votes)}')] = reply.granted\n",
            ),
            Patch(
                _CORE + "quorum",
                "return sum(voter in yes for voter in voters) >= majority(voters)",
                "return len(yes) >= majority(voters)",
            ),
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_a_vote_that_is_repeated_is_counted_once",
        ),
    ),
    Mutant(
        "no-pre-vote",
        ("L1",),
        _core(
            "election",
            "    state.votes = {state.me: True}\n"
            "    if has_majority(state.votes, state.quorum):\n"
            "        start_election(state)\n"
            "        return\n",
            "    start_election(state)\n    return\n",
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_a_vote_that_is_repeated_is_counted_once",
        ),
        rows=("35",),
    ),
    Mutant(
        "no-stickiness",
        ("L1",),
        _core(
            "election",
            "if not appointed and (state.leader_is_alive() or state.has_promised()):",
            "if False:",
        ),
        tests=("tests/dledger/core/test_election.py::test_a_healthy_leader_is_not_voted_away",),
    ),
    Mutant(
        "no-check-quorum",
        ("L1",),
        _core(
            "leading",
            "    elif state.now - state.quorum_at >= state.config.election_timeout_max:\n"
            "        return False\n",
            "",
        ),
        tests=("tests/dledger/core/test_election.py::test_a_leader_that_nobody_hears_gives_up",),
    ),
    Mutant(
        "stalled-follower-counts-as-alive",
        ("R5",),
        _core("leading", "return not (outstanding and stalled)", "return True"),
        tests=(
            "tests/dledger/core/test_election.py::test_heartbeats_alone_do_not_keep_a_leader_whose_data_does_not_move",
        ),
    ),
    Mutant(
        "timeouts-not-randomised",
        ("L1",),
        _core(
            "state",
            "self.election_deadline = self.now + low + (high - low) * self.jitter()",
            "self.election_deadline = self.now + (low + high) / 2",
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_a_group_elects_one_leader_and_it_opens_its_term_with_a_noop",
        ),
        rows=("39",),
        seeds=15,
    ),
    Mutant(
        "leader-ignores-higher-term",
        ("S1",),
        _core(
            "node",
            "    if message.term > state.term:\n"
            "        election.become_follower(state, message.term, None)\n"
            "    if message.term != state.term or",
            "    if message.term < state.term or",
        ),
        tests=(
            "tests/dledger/core/test_election.py::test_a_stuck_node_with_a_higher_term_brings_the_group_to_it",
        ),
        rows=("20",),
        seeds=5,
    ),
)
