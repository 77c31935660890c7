"""Mutants of `dledger.core`: what is in the log, what is committed, what may be read."""

from __future__ import annotations

from chaos.mutants.mutant import Mutant
from chaos.mutants.patch import Patch

_CORE = "dledger.core."
_TESTS = "tests/dledger/core/"


def _core(module: str, old: str, new: str) -> tuple[Patch, ...]:
    return (Patch(_CORE + module, old, new),)


REPLICATION = (
    Mutant(
        "append-of-old-term-accepted",
        ("S1",),
        _core(
            "replication",
            "    if message.term < state.term:\n",
            "    if message.term < state.term - 1000:\n",
        ),
        seeds=20,
        tests=(_TESTS + "test_replication.py",),
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
        tests=(_TESTS + "test_replication.py",),
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
        seeds=20,
        tests=(_TESTS + "test_replication.py",),
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
    ),
    Mutant(
        "truncation-below-commit-allowed",
        ("S3",),
        _core("replication", "    if index < state.commit:\n", "    if index < -1:\n"),
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "old-term-committed-by-counting",
        ("S4",),
        _core(
            "leading",
            "if index <= state.commit or state.log.term_at(index) != state.term:",
            "if index <= state.commit:",
        ),
        tests=(_TESTS + "test_replication.py",),
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
        tests=(_TESTS + "test_election.py",),
    ),
    Mutant(
        "progress-of-an-earlier-leadership",
        ("S5",),
        (
            Patch(
                _CORE + "leading",
                "        peer: Progress(Index(last.index + 1), state.now, state.now) "
                "for peer in state.config.peers\n",
                "        peer: state.old.get(peer)\n"
                "        or Progress(Index(last.index + 1), state.now, state.now)\n"
                "        for peer in state.config.peers\n",
            ),
            Patch(
                _CORE + "leading",
                "    state.progress = {}\n",
                "    state.old = dict(state.progress)\n    state.progress = {}\n",
            ),
            Patch(
                _CORE + "state",
                "    votes: dict[NodeId, bool] = field(default_factory=dict)\n",
                "    votes: dict[NodeId, bool] = field(default_factory=dict)\n"
                "    old: dict = field(default_factory=dict)\n",
            ),
        ),
        seeds=20,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "acks-of-an-old-term-counted",
        ("S7",),
        _core(
            "node",
            "if message.term != state.term or state.role is not Role.LEADER:",
            "if state.role is not Role.LEADER:",
        ),
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "follower-acks-before-fsync",
        ("D3",),
        _core(
            "replication",
            "    if state.flushed >= message.last:\n        _reply",
            "    state.flushed = max(state.flushed, message.last)\n    if True:\n        _reply",
        ),
        seeds=20,
    ),
    Mutant(
        "heartbeat-answers-with-written-index",
        ("D3",),
        _core(
            "replication",
            "    flushed = min(state.flushed, state.matched)\n    state.send(\n        message",
            "    flushed = state.matched\n    state.send(\n        message",
        ),
        seeds=20,
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
        seeds=30,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "matched-survives-a-term",
        ("R4",),
        _core(
            "election",
            "        state.matched = NO_INDEX\n        state.persist()\n    state.role",
            "        state.persist()\n    state.role",
        ),
        seeds=30,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "match-is-the-followers-last-index",
        ("S2", "S7"),
        _core(
            "replication",
            "    state.matched = max(state.matched, message.last)\n",
            "    state.matched = state.log.last.index\n",
        ),
        seeds=30,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "lost-append-never-sent-again",
        ("L3",),
        _core(
            "leading",
            "    elif not settled and state.now",
            "    elif False and state.now",
        ),
        seeds=20,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "lost-probe-never-sent-again",
        ("L3",),
        _core("leading", "            progress.probe_at = None\n", ""),
        seeds=20,
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "window-not-bounded",
        ("L3",),
        _core(
            "progress",
            "return len(self.in_flight) < frames_max and self.in_flight_bytes < bytes_max",
            "return True",
        ),
        tests=(_TESTS + "test_replication.py",),
    ),
    Mutant(
        "failed-disk-goes-on",
        ("D5",),
        _core(
            "node",
            "        if state.role is Role.FAILED:\n            rule =",
            "        if state.role is Role.FAILED and False:\n            rule =",
        ),
        tests=(_TESTS + "test_election.py",),
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
        seeds=20,
        tests=(_TESTS + "test_reads.py",),
    ),
    Mutant(
        "read-before-the-noop",
        ("S9",),
        _core(
            "reads",
            "    if state.commit < state.noop_index:\n",
            "    if False:\n",
        ),
        seeds=30,
        tests=(_TESTS + "test_reads.py",),
    ),
    Mutant(
        "read-confirmed-by-an-earlier-round",
        ("S9",),
        _core(
            "reads",
            "PendingRead(read_id, origin, state.commit, state.round + 1)",
            "PendingRead(read_id, origin, state.commit, state.round)",
        ),
        seeds=30,
        tests=(_TESTS + "test_reads.py",),
    ),
    Mutant(
        "rejection-confirms-a-read",
        ("S9", "S7"),
        _core(
            "replication",
            "    else:\n        answered = 0\n",
            "    else:\n        answered = message.round\n",
        ),
        argued=(
            "A refused heartbeat is answered in the newer term, and the leader steps down at that "
            "answer before it looks at the round; the round in it decides nothing."
        ),
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
