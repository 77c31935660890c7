"""A node's trace: every change once, only what is on its disk, and whole after kills."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.checkers.elections import find_going_back, find_two_leaders
from chaos.checkers.membership import find_early_changes
from chaos.live import node_trace
from chaos.live.node_trace import NodeTrace, begin_time, read_traces, told
from chaos.live.observer import seen
from commitlog.errors import StoreDamaged
from dledger.core.configuration import of_voters
from dledger.core.types import HardState, NodeId, Role, Term
from dledger.membership.generation import NO_GENERATION, Generation

ZERO = 500.0


@dataclass
class Node:
    """The part of a node that its trace looks at."""

    role: Role = Role.FOLLOWER
    term: int = 1
    leader: str | None = None
    commit: int = -1
    configuration: Any = field(default_factory=lambda: of_voters([NodeId("n0"), NodeId("n1")]))
    configuration_index: int = -1
    end: int = -1
    no_op: int = -1
    changes: tuple[int, ...] = ()

    def status(self) -> Any:
        return SimpleNamespace(noop_index=self.no_op)

    def configurations_in(self, first: int, last: int) -> Any:
        return [SimpleNamespace(index=at) for at in self.changes if first <= at <= last]

    @property
    def log(self) -> Any:
        return SimpleNamespace(last=SimpleNamespace(index=self.end))


class Stored:
    """The part of a log whose end a new leader tells; entry n has the checksum 0x1000 + n."""

    first_index, end, damaged = 0, -1, False

    @property
    def last(self) -> Any:
        return SimpleNamespace(index=self.end)

    def entries(self, first: int, last: int) -> Any:
        for index in range(first, last + 1):
            if self.damaged:
                raise StoreDamaged("rotten")
            yield SimpleNamespace(header=SimpleNamespace(chain_crc=0x1000 + index))


class Traced:
    """A node whose trace is in the folder of a run; `now` is moved by hand."""

    def __init__(self, root: Path, name: str = "n0") -> None:
        self.root, self.now = root, ZERO
        self.path = root / "cluster" / name / node_trace.TRACE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        begin_time(root, ZERO)
        self.boot()

    def boot(self, life: int = 7, generation: Generation = NO_GENERATION) -> None:
        self.node = Node()
        self.hard = SimpleNamespace(state=HardState(Term(1), None, life))
        node, hard = cast("Any", self.node), cast("Any", self.hard)
        self.log = Stored()
        log = cast("Any", self.log)
        self.trace = NodeTrace(self.path, node, hard, lambda: self.now, generation, log)
        self.trace.look()

    def vote(self, term: int, who: str, life: int = 7) -> None:
        self.hard.state = HardState(Term(term), NodeId(who), life)

    def rows(self) -> list[dict[str, Any]]:
        return read_traces(self.root)


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    return Traced(tmp_path)


def test_every_change_is_one_line_however_short(traced: Traced) -> None:
    traced.vote(1, "n0")
    for role in (Role.CANDIDATE, Role.LEADER, Role.LEADER, Role.FOLLOWER):
        traced.now += 0.001
        traced.node.role = role
        traced.trace.look()
    rows = traced.rows()
    assert [row["role"] for row in rows] == ["follower", "candidate", "leader", "follower"]
    assert [row["time"] for row in rows] == [0.0, 0.001, 0.002, 0.004]
    assert [told(row).leads for row in rows] == [False, False, True, False]
    assert rows[0]["members"] == ["n0", "n1"]
    assert "members" not in rows[1]


def test_a_vote_that_is_not_on_the_disk_is_not_told(traced: Traced) -> None:
    traced.node.term = 2  # a candidate of a term that a crash would take back
    traced.node.role = Role.CANDIDATE
    traced.trace.look()
    assert len(traced.rows()) == 1
    traced.vote(2, "n0")
    traced.trace.look()
    assert [(row["term"], row["vote"]) for row in traced.rows()] == [(1, ""), (2, "n0")]


def test_commits_alone_are_told_now_and_then(traced: Traced) -> None:
    for commit in range(100):
        traced.now += 0.002
        traced.node.commit = traced.node.end = commit
        traced.trace.look()
    told_commits = [row["committed"] for row in traced.rows()]
    assert 3 <= len(told_commits) <= 6
    assert told_commits == sorted(told_commits)


def test_a_trace_is_bounded(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_trace, "SIZE_MAX", 2000)
    for commit in range(200):
        traced.now += 1.0
        traced.node.commit = commit
        traced.trace.look()
    assert traced.path.stat().st_size < 2200
    for term in range(2, 200):
        traced.node.term = term
        traced.vote(term, "n1")
        traced.trace.look()
    rows = traced.rows()
    assert rows[-1]["term"] > 2  # there is still room for what elections need
    assert traced.path.stat().st_size < 4400


def test_a_torn_line_is_passed_over_and_the_next_process_begins_a_line(traced: Traced) -> None:
    with traced.path.open("a", encoding="utf-8") as file:
        file.write('{"at":501,"ro')
    traced.now = ZERO + 2
    traced.boot()
    assert [(row["time"], row["boot"]) for row in traced.rows()] == [(0.0, 0), (2.0, 1)]


def test_a_node_with_a_new_folder_has_promised_nothing(traced: Traced) -> None:
    traced.vote(3, "n1")
    traced.node.term = 3
    traced.trace.look()
    traced.boot(life=8)  # of term 1
    rows = [told(row) for row in traced.rows()]
    assert [(row.node, row.life) for row in rows] == [("n0", 7), ("n0", 7), ("n0", 8)]
    assert find_going_back(rows) == []
    assert find_going_back([row._replace(life=7) for row in rows]) != []


def test_traces_and_the_observer_name_a_node_alike(traced: Traced) -> None:
    """Merged they showed two leaders of a term, where one node with a new folder led."""
    traced.boot(life=8)
    traced.node.role, traced.node.term = Role.LEADER, 2
    traced.vote(2, "n0", life=8)
    traced.now += 1
    traced.trace.look()
    leader = told(traced.rows()[-1])
    look = {"time": 2.0, "node": "n0", "role": "leader", "term": 2, "committed": 1, "last": 1}
    looks = [seen({**look, "boot": 0}), seen({**look, "boot": 0, "life": 8})]
    assert find_two_leaders([leader, *looks]) == []
    emptied = leader._replace(life=9)
    assert [one.name for one in find_two_leaders([leader, emptied])] == ["election-safety"]


def test_a_line_that_cannot_be_written_comes_later(traced: Traced) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = traced.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # the kind `file-limit`
    try:
        traced.node.leader = "n1"
        traced.trace.look()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(traced.rows()) == 1
    traced.trace.look()
    assert [row["leader"] for row in traced.rows()] == ["", "n1"]


def test_a_new_leader_tells_its_logs_end_once(traced: Traced) -> None:
    traced.node.commit, traced.node.end, traced.log.end, traced.node.no_op = 5, 8, 8, 8
    traced.node.role = Role.LEADER
    traced.trace.look()
    traced.node.commit, traced.now = 8, traced.now + 1
    traced.trace.look()
    _, elected, later = (told(row) for row in traced.rows())
    assert elected.links is not None
    assert (elected.links.first, elected.links.last, elected.no_op) == (5, 8, 8)
    assert elected.links.at(7) == (0x1007).to_bytes(4, "big")
    assert (elected.links.at(4), elected.links.at(9), later.links) == (None, None, None)


@pytest.mark.parametrize(("end", "damaged", "first"), [(2000, False, 977), (8, True, None)])
def test_it_tells_no_more_than_it_can(
    traced: Traced, end: int, damaged: bool, first: int | None
) -> None:
    traced.node.end = traced.log.end = end
    traced.log.damaged = damaged
    traced.node.role = Role.LEADER
    traced.trace.look()
    links = told(traced.rows()[-1]).links
    assert (links.first if links else None) == first


def test_changes_of_the_group_are_told_with_what_is_committed(traced: Traced) -> None:
    traced.node.role, traced.node.no_op, traced.node.commit, traced.node.end = Role.LEADER, 2, 4, 9
    traced.node.configuration_index, traced.node.changes = 9, (3, 7, 9)
    traced.trace.look()
    row = told(traced.rows()[-1])
    assert (row.configuration, row.changing) == (9, (7, 9))
    assert [one.name for one in find_early_changes([row])] == ["two-changes"]


def test_lines_of_earlier_versions_are_read(traced: Traced) -> None:
    old = '{"at":501,"boot":9,"life":7,"role":"leader","term":1,"vote":"","leader":"",'
    with traced.path.open("a", encoding="utf-8") as file:
        file.write(old + '"committed":1,"last":1}\n')
    row = told(traced.rows()[-1])
    assert (row.links, row.changing, row.configuration, row.no_op) == (None,) * 4
    with traced.path.open("a", encoding="utf-8") as file:
        file.write(old + '"committed":1,"last":1,"links":[0,"no digits"]}\n')
    with pytest.raises(ValueError, match=r"trace\.jsonl, line 3"):
        traced.rows()


def test_a_run_without_traces_has_none(tmp_path: Path) -> None:
    assert read_traces(tmp_path) == []
    assert json.loads((Traced(tmp_path).root / node_trace.ZERO).read_text()) == {"monotonic": ZERO}


def test_each_process_tells_which_copy_of_the_folder_it_is_on(traced: Traced) -> None:
    traced.boot(generation=Generation(9, 55))
    traced.vote(1, "n0")
    traced.trace.look()
    assert [told(row).generation for row in traced.rows()] == [None, (9, 55), None]
