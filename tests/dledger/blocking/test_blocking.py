"""The blocking twin: what the async classes say, from any thread, with time limits that hold."""

from __future__ import annotations

import ast
import contextlib
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, assert_type

import pytest

from dledger import (
    DledgerError,
    Entry,
    LogUsageError,
    MachineSettings,
    NodeFailed,
    NotLeader,
    ProposalTimedOut,
    RaftConfig,
    ReplicatedStateMachine,
    StateMachineFailed,
    blocking,
    objects,
)
from dledger.blocking import (
    KeyValueStore,
    LeaderElection,
    LoopThread,
    ReplicatedCounter,
    ReplicatedDict,
    ReplicatedLock,
    ReplicatedNode,
)
from dledger.blocking.replicated import command, entry_of, on_node, query, read, replicated
from tests.dledger.runtime.group import Group
from tests.virtual_loop import LoopClock
from tests.waiting import limit, wait_until

ROOT = Path(__file__).parents[3]
T = TypeVar("T")
PATIENT: dict[str, Any] = {"create": True, "settings": MachineSettings(propose_seconds=60)}


class Adder(ReplicatedStateMachine[int, int]):
    def __init__(self) -> None:
        self.total = 0

    def apply(self, entry: Entry[int]) -> int:
        self.total += 100 // (13 - entry.command) and entry.command
        return self.total


@replicated
class Tally:
    votes: int

    def __init__(self) -> None:
        self.votes = 0

    @command
    def vote(self, count: int) -> int:
        self.votes += count
        return self.votes

    @command
    def nested(self) -> int:
        return self.vote(1)

    @command
    def index(self) -> int:
        return entry_of(self).index

    @query
    def total(self) -> int:
        return self.votes


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with LoopThread() as made:
        yield made


@pytest.fixture
def configs(tmp_path: Path, new_address: Callable[[], str]) -> list[RaftConfig]:
    return list(Group(tmp_path, new_address).configs.values())


@pytest.fixture
def three(configs: list[RaftConfig], thread: LoopThread) -> Iterator[Callable[..., list[Any]]]:
    """Starts an object on three nodes that share a thread."""
    made: list[Any] = []

    def make(kind: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
        for config in configs:
            clock = thread.call(LoopClock)
            made.append(kind(config, *arguments, thread=thread, clock=clock, **PATIENT, **options))
            made[-1].start()
        return made

    yield make
    for one in made:
        one.close()


@pytest.fixture
def one(tmp_path: Path, new_address: Callable[[], str]) -> RaftConfig:
    return Group(tmp_path, new_address, 1).configs["n0"]


def test_it_is_what_the_async_classes_say() -> None:
    script = ROOT / "scripts" / "unasync_dledger.py"
    run = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=limit(60)
    )
    assert run.returncode == 0, run.stderr


def test_every_object_has_a_twin() -> None:
    found = set()
    for path in Path(objects.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            bases = [ast.unparse(base) for base in getattr(node, "bases", [])]
            if isinstance(node, ast.ClassDef) and any(
                base.startswith(("ReplicatedObject", "ReplicatedLock")) for base in bases
            ):
                found.add(node.name)
    assert found - {"RunningObject"} <= set(blocking.__all__)


@pytest.mark.parametrize("name", ["ReplicatedCounter", "KeyValueStore", "ReplicatedNode"])
def test_the_methods_block(name: str) -> None:
    for method, function in inspect.getmembers(getattr(blocking, name), inspect.isfunction):
        assert not inspect.iscoroutinefunction(function), method


def test_a_counter_from_many_threads(three: Callable[..., list[Any]]) -> None:
    counters: list[ReplicatedCounter] = three(ReplicatedCounter)
    with ThreadPoolExecutor(6) as pool:
        sums = list(pool.map(lambda n: counters[n % 3].add(2), range(30)))
    assert sorted(sums) == list(range(2, 62, 2))
    assert [counter.value() for counter in counters] == [60] * 3


def test_many_are_on_their_way_at_once(one: RaftConfig) -> None:
    with ReplicatedNode(one, Adder(), **PATIENT) as node:
        futures = [node.propose_nowait(1) for _ in range(50)]
        assert [future.result(limit(60)) for future in futures] == list(range(1, 51))
        assert node.is_leader
        assert node.leader == node.leader_changes.value == "n0"
        assert [member.node_id for member in node.log.members] == ["n0"]
        assert node.read(lambda: "seen") == "seen"
        assert node.log.status().applied > 0


def answered(ask: Callable[[], str | None]) -> str | None:
    """The answer to a read, asked until it comes: it is refused while the group has no leader."""
    found: list[str | None] = []

    def asked() -> bool:
        with contextlib.suppress(DledgerError):
            found.append(ask())
        return bool(found)

    wait_until(asked, "a read is answered")
    return found[0]


def test_an_election(three: Callable[..., list[Any]]) -> None:
    electors: list[LeaderElection] = three(LeaderElection, lease=3600.0)
    one, two, _ = electors
    with one.campaign("service", "a") as first:
        assert first.is_held
        with pytest.raises(TimeoutError):
            first.wait_until_lost(0.01)
        with pytest.raises(TimeoutError), two.campaign("service", "b", timeout=limit(0.1)):
            raise AssertionError("another leads")
        assert answered(lambda: two.leader("service")) == "a"
    with pytest.raises(ZeroDivisionError), two.campaign("service", "b") as second:
        print(second.token // 0)
    assert not second.is_held
    assert not first.is_held
    with one.campaign("service", "c"):  # the error above has freed it
        assert answered(lambda: two.leader("service")) == "c"


def test_a_lock_is_waited_for_so_long(one: RaftConfig) -> None:
    with ReplicatedLock(one, **PATIENT) as locks:
        held = locks.acquire("x", lease=3600)
        with pytest.raises(TimeoutError):
            locks.acquire("x", lease=3600, timeout=limit(0.05))
        assert locks.release(held)
        assert locks.acquire("x", lease=1, timeout=limit(60)).token > held.token


def test_a_dictionary_knows_the_type_of_its_values(one: RaftConfig) -> None:
    with ReplicatedDict[int](one, **PATIENT) as numbers:
        assert assert_type(numbers.set("a", 1), int | None) is None
        assert numbers.items() == {"a": 1}


def test_a_watch_is_a_loop_with_a_time_limit(one: RaftConfig) -> None:
    with KeyValueStore(one, **PATIENT) as store:
        store.put("else", 1)
        with store.watch("jobs/", prefix=True, after=0) as changes:
            with pytest.raises(TimeoutError):
                changes.next(0.01)
            with store.holding(3600) as lease:
                store.put("jobs/1", "x", lease=lease)
            assert [next(changes).key, changes.next(limit(60)).item] == ["jobs/1", None]
        assert store.compare_and_set("jobs/2", 5, revision=0)


def test_a_class_of_ones_own(one: RaftConfig) -> None:
    with on_node(Tally, one, **PATIENT) as tally:
        assert assert_type(tally.vote(2), int) == 2
        assert tally.vote(3) == 5
        assert assert_type(tally.total(), int) == 5
        assert read(tally, lambda found: found.votes) == 5
        assert tally.index() > 0
        with pytest.raises(DledgerError):  # a command inside a command would wait for itself
            tally.nested()


def test_a_late_command_is_asked_for_again(
    tmp_path: Path, new_address: Callable[[], str], thread: LoopThread
) -> None:
    with contextlib.ExitStack() as closing:

        def node_of(config: RaftConfig) -> ReplicatedNode[int, int]:
            clock = thread.call(LoopClock)
            made = ReplicatedNode(config, Adder(), thread=thread, clock=clock, **PATIENT)
            return closing.enter_context(made)

        nodes = [node_of(config) for config in Group(tmp_path, new_address, 2).configs.values()]
        nodes[0].propose(1)
        leader, late = nodes[0], None
        while late is None:  # until it leads still when it is asked, alone
            leader, other = sorted(nodes, key=lambda node: not node.is_leader)
            other.close()
            try:
                leader.propose(10, timeout=limit(0.1))
            except ProposalTimedOut as error:
                late = error
            except NotLeader:  # a busy machine: it has noticed already that nobody follows
                pass
            nodes = [leader, node_of(other.config)]
            nodes[0].propose(0)
        assert leader.propose_again(late) == 11


def test_errors_and_leaders_are_told_of_in_the_loops_thread(one: RaftConfig) -> None:
    told = threading.Event()
    errors: list[DledgerError] = []
    with ReplicatedNode(one, Adder(), **PATIENT) as node:
        leaders = iter(node.leader_changes)
        while leaders.next(limit(60)) != "n0":
            pass

        def tell(error: DledgerError) -> None:
            errors.append(error)
            told.set()

        stop = node.on_error(tell)
        stop_members = node.member_changes.subscribe(errors.append)
        stop_members()
        with pytest.raises(DledgerError):
            node.propose(13)
        assert told.wait(limit(60))
        assert isinstance(errors[0], StateMachineFailed)
        assert isinstance(node.failure, NodeFailed)
        with pytest.raises(NodeFailed):
            leaders.next(limit(60))
        stop()


def test_a_closed_one_says_so(one: RaftConfig) -> None:
    counter = ReplicatedCounter(one, **PATIENT)
    with counter:
        counter.add(1)
    counter.close()
    with pytest.raises(NodeFailed, match="closed"):
        counter.add(1)
    again = ReplicatedCounter(one, **PATIENT)
    with again:
        assert again.add(0) == 1


def test_a_start_that_fails_ends_its_thread(one: RaftConfig) -> None:
    counter = ReplicatedCounter(one)
    with pytest.raises(NodeFailed):
        counter.start()
    assert counter.thread.is_closed


def lengths(node: ReplicatedNode[str, int]) -> int:
    """Never run: the types are the test."""
    assert_type(node.propose("x"), int)
    assert_type(node.propose_nowait("x").result(), int)
    assert_type(node.read(lambda: "text"), str)
    return node.propose("x")


def test_a_call_inside_the_loop_is_refused(thread: LoopThread) -> None:
    with pytest.raises(LogUsageError, match="wait for itself"):
        thread.call(lambda: thread.call(lambda: 1))
    assert callable(lengths)
