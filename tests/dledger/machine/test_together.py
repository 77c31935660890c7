"""Commands that share an entry: each is applied once, in order, with a number of its own."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dledger import Entry, ReplicatedStateMachine, StateMachineDiverged
from dledger.core.types import NodeId
from dledger.errors import StateMachineFailed
from dledger.machine import node as machine_node
from dledger.machine.applier import SHRINK_EVERY
from dledger.machine.entries import (
    COMMANDS_BYTES_MAX,
    COMMANDS_MAX,
    HEAD_SIZE,
    Item,
    Kind,
    Row,
    commands_of,
    opened,
    pack_entries,
    pack_entry,
)
from dledger.machine.leading import Leading
from dledger.machine.state_head import StateHead
from dledger.wire.forwards import Asker, Forward
from tests.waiting import eventually, within

from .group import MachineGroup
from .hosts import Hosts, leader_of
from .test_leading import Log
from .test_runs import Node, log, pieces


def rows_of(bodies: list[bytes], begin: int = 0) -> list[Row]:
    return [(begin + at, 1, memoryview(body)) for at, body in enumerate(bodies)]


def items_in(bodies: list[bytes]) -> list[Item]:
    """The items that these entries carry."""
    items: list[Item] = []
    for _, _, body, kind, _, _, sequence, _ in opened(rows_of(bodies)):
        if kind == Kind.COMMANDS:
            some = enumerate(commands_of(body))
            items += [(int(Kind.COMMAND), sequence + at, data) for at, data in some]
        else:
            items.append((kind, sequence, bytes(body[HEAD_SIZE:])))
    return items


@pytest.mark.parametrize("seed", range(20))
def test_items_come_out_of_their_entries_as_they_went_in(seed: int) -> None:
    draw = random.Random(seed)
    size_max = draw.choice((60, 200, 1000, COMMANDS_BYTES_MAX))
    items: list[Item] = []
    sequence = 5
    for _ in range(draw.choice((1, 2, 63, 64, 65, 400))):
        sequence += draw.choice((1, 1, 1, 1, 1, 1, 2, -3))
        kind = Kind.COMPARE if draw.random() < 0.02 else Kind.COMMAND
        items.append((int(kind), sequence, draw.randbytes(draw.choice((0, 1, 20, 90)))))
    bodies = pack_entries(items, 7, 3, 1, commands_max=COMMANDS_MAX, size_max=size_max)
    assert items_in(bodies) == items
    for body in bodies:
        ((*_, kind, time_ms, session, _, lowest),) = opened(rows_of([body]))
        assert (time_ms, session, lowest) == (7, 3, 1)
        if kind == Kind.COMMANDS:
            assert len(body) <= size_max
            assert 2 <= len(commands_of(body)) <= COMMANDS_MAX


def test_as_many_commands_as_may_share_an_entry() -> None:
    items: list[Item] = [(int(Kind.COMMAND), sequence, b"x" * 1024) for sequence in range(200)]
    bodies = pack_entries(items, 7, 3, 1, commands_max=COMMANDS_MAX)
    assert [len(commands_of(body)) for body in bodies] == [64, 64, 64, 8]
    assert len(pack_entries(items, 7, 3, 1)) == 200, "none shares one unless it is allowed"


def test_an_entry_with_other_sizes_than_bytes_stops_the_node() -> None:
    items: list[Item] = [(int(Kind.COMMAND), sequence, b"abc") for sequence in range(3)]
    (body,) = pack_entries(items, 7, 0, 0, commands_max=COMMANDS_MAX)
    assert commands_of(body) == [b"abc"] * 3
    for wrong in (body[:-1], body + b"x", body[: HEAD_SIZE + 2], body[: HEAD_SIZE + 9]):
        with pytest.raises(ValueError, match="commands"):
            commands_of(wrong)
        node = Node()
        node.apply(rows_of([pack_entry((Kind.OPEN, 7, b""), 5, 0, 0)]))
        with pytest.raises(StateMachineFailed, match="of no release") as failed:
            node.apply(rows_of([wrong], 1))
        assert failed.value.index == 1
        assert node.machine.seen == []


# -- the same as one by one ------------------------------------------------------------------------


def shared(draw: random.Random, rows: list[Row]) -> list[Row]:
    """The same commands, some of which share entries; the places of all entries are others."""
    found: list[bytes] = []
    moved: dict[int, int] = {0: 0, -1: -1}
    at = 0
    while at < len(rows):
        ((place, _, body, kind, time_ms, session, sequence, lowest),) = opened([rows[at]])
        some: list[Item] = []
        if kind == Kind.COMMAND and draw.random() < 0.7:
            for row in rows[at : at + draw.choice((2, 5, 64))]:
                ((_, _, one, *head),) = opened([row])
                if head != [kind, time_ms, session, sequence + len(some), lowest]:
                    break
                some.append((kind, sequence + len(some), bytes(one[HEAD_SIZE:])))
        if kind == Kind.OPEN:
            moved[place] = len(found)
        if len(some) > 1:
            found += pack_entries(some, time_ms, moved[session], lowest, commands_max=COMMANDS_MAX)
        elif kind in (Kind.COMMAND, Kind.COMPARE):
            item = (kind, sequence, bytes(body[HEAD_SIZE:]))
            found.append(pack_entry(item, time_ms, moved[session], lowest))
        else:
            found.append(bytes(body))
        at += max(1, len(some))
    return rows_of(found)


@pytest.mark.parametrize("seed", range(12))
def test_commands_that_share_entries_are_applied_as_one_by_one(seed: int) -> None:
    """No results are given up here: the two logs give them up at other commands."""
    draw = random.Random(seed)
    rows = log(draw, 1500)
    alone, together = Node(), Node()
    for node in (alone, together):
        node.applier.sessions._results_bytes_max = 1 << 30
    alone.apply(rows)
    less = shared(draw, rows)
    assert len(less) < 0.7 * len(rows)
    together.apply(less)
    assert [one.command for one in together.machine.seen] == [
        one.command for one in alone.machine.seen
    ]
    assert [one.time_ms for one in together.machine.seen] == [
        one.time_ms for one in alone.machine.seen
    ]
    assert [result[1:] for result in together.results] == [result[1:] for result in alone.results]
    assert [told.sequence for told in together.told] == [told.sequence for told in alone.told]


@pytest.mark.parametrize("seed", range(12))
def test_pieces_and_restarts_make_no_difference(seed: int) -> None:
    draw = random.Random(seed)
    rows = shared(draw, log(draw, 1500))
    alone, together = Node(), Node()
    for row in rows:
        alone.apply([row])
    for piece in pieces(draw, rows):
        together.apply(piece)
        if draw.random() < 0.3:
            together.applier.resume(together.applier.head(), together.applier.applied)
    assert together.machine.seen == alone.machine.seen
    assert together.results == alone.results
    assert together.told == alone.told
    assert together.applier.head() == alone.applier.head()
    numbers = [entry.index for entry in alone.machine.seen]
    assert numbers == sorted(set(numbers)), "they grow"


# -- numbers ---------------------------------------------------------------------------------------


def commands(first: int, count: int, data: bytes = b"x") -> bytes:
    items = [(int(Kind.COMMAND), first + at, data) for at in range(count)]
    (body,) = pack_entries(items, 5, 0, 0, commands_max=COMMANDS_MAX)
    return body


def opened_node() -> Node:
    node = Node()
    node.apply(rows_of([pack_entry((Kind.OPEN, 7, b""), 5, 0, 0)]))
    return node


def numbers_of(node: Node) -> list[int]:
    return [entry.index for entry in node.machine.seen]


def test_a_number_is_the_place_until_commands_share_one() -> None:
    node = opened_node()
    node.apply(rows_of([commands(1, 1), commands(2, 1)], 1))
    assert numbers_of(node) == [1, 2]
    assert node.applier.head()[4:8] == b"\0\0\0\1", "which the release before can read"
    node.apply(rows_of([commands(3, 4), commands(7, 1), commands(8, 2)], 3))
    assert numbers_of(node) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert node.applier.head()[4:8] == b"\0\0\0\2"
    assert node.applier.shares_entries
    noops = [bytes(commands(1, 1))] * 5  # repeated: they are passed over, and take places
    node.apply(rows_of([*noops, commands(10, 1)], 6))
    assert numbers_of(node)[-1] == 11, "the place has caught up"
    assert not node.applier.shares_entries


def test_a_repeat_in_an_entry_of_several_keeps_its_number_from_others() -> None:
    """All nodes count alike, whatever each of them knows of the sessions when it starts."""
    node = opened_node()
    node.apply(rows_of([commands(1, 2)], 1))
    node.apply(rows_of([commands(2, 3)], 2))  # 2 is there already
    assert numbers_of(node) == [1, 2, 4, 5]
    assert [sequence for _, sequence, _ in node.results] == [1, 2, 3, 4]


def test_a_state_of_the_release_before_is_read() -> None:
    node = opened_node()
    sessions = node.applier.sessions.dump()
    node.machine.restore = lambda state: None  # type: ignore[method-assign]
    node.applier.load(StateHead(0, 5, 0, sessions).pack(), 0)
    node.apply(rows_of([commands(1, 2)], 1))
    assert numbers_of(node) == [1, 2]


# -- failures name the entry -----------------------------------------------------------------------


def fail_at_bad(given: Any) -> Any:
    """In place of `decode`, `apply` or `encode_result`."""
    if given == b"bad" or getattr(given, "command", b"") == b"bad":
        raise ZeroDivisionError("bad")
    return given.command if isinstance(given, Entry) else given


@pytest.mark.parametrize("way", ["apply", "decode", "encode_result"])
def test_a_failure_names_the_place_and_not_the_number(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node()
    machine, applier = node.machine, node.applier
    monkeypatch.setattr(machine, "apply", lambda entry: entry.command)
    monkeypatch.setattr(applier, "_encode_result", lambda result: result)
    target: Any = {"apply": machine, "decode": applier._batch, "encode_result": applier}[way]
    monkeypatch.setattr(target, way if way == "apply" else f"_{way}", fail_at_bad)
    node.apply(rows_of([pack_entry((Kind.OPEN, 7, b""), 5, 0, 0)]))
    items = [(int(Kind.COMMAND), at, b"bad" if at == 7 else b"x") for at in range(1, 9)]
    bodies = pack_entries(items, 5, 0, 0, commands_max=4)
    with pytest.raises(StateMachineFailed) as failed:
        node.apply(rows_of(bodies, 1))
    assert failed.value.index == 2


def test_another_result_within_an_entry_stops_the_node_at_its_place() -> None:
    """Two publish what their entry of several had as results; the third had another one."""
    nodes = [opened_node() for _ in range(3)]
    bodies = [commands(1 + 4 * at, 4) for at in range(60)]
    published: list[bytes] = []
    for at, node in enumerate(nodes):
        if at == 2:
            node.machine.seen.append(Entry(0, 0, 0, b""))  # its results are longer by one
        node.apply(rows_of(bodies, 1))
        first = node.published[0]
        published.append(first[:-2] + b"n%d" % at)
    assert published[0][:-2] == published[1][:-2] != published[2][:-2]
    told = [
        pack_entry((Kind.COMPARE, 241 + at, data), 5, 0, 0) for at, data in enumerate(published)
    ]
    nodes[0].apply(rows_of(told, 61))
    with pytest.raises(StateMachineDiverged) as diverged:
        nodes[2].apply(rows_of(told, 61))
    assert diverged.value.index == 1


def test_results_are_given_up_before_each_entry_of_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else an entry of 64 large results followed by 63 more would hold them all."""
    assert SHRINK_EVERY == COMMANDS_MAX
    node = opened_node()
    monkeypatch.setattr(node.machine, "apply", lambda entry: "r" * 498)  # 600 bytes each, in all
    monkeypatch.setattr(node.applier.sessions, "_results_bytes_max", 60_000)
    most = 0
    for first in range(129, 129 + 64 * 60, 64):
        items: list[Item] = [(int(Kind.COMMAND), first + at, b"x") for at in range(64)]
        lowest = first - 128  # of 192 commands are results kept
        (body,) = pack_entries(items, 5, 0, lowest, commands_max=COMMANDS_MAX)
        node.apply(rows_of([body], node.applier.applied + 1))
        most = max(most, node.applier.sessions.results_bytes)
    assert 60_000 < most <= 60_000 + COMMANDS_MAX * 610


# -- when a leader lets them share one -------------------------------------------------------------


@pytest.mark.parametrize(("commands_max", "entries"), [(1, 6), (2, 3), (64, 2)])
async def test_a_leader_asks_how_many_commands_may_share_an_entry(
    commands_max: int, entries: int
) -> None:
    log: Any = Log()
    bodies: list[bytes] = []

    def append(some: list[bytes]) -> Any:
        bodies.extend(some)
        return log.appended

    log.append_at_once = append
    applier: Any = Node().applier
    leading = Leading(log, applier, commands_max=lambda: commands_max)
    items: list[Item] = [(int(Kind.COMMAND), at, b"x" * 300) for at in range(1, 7)]
    leading.take(NodeId("n2"), Forward(Asker(1, 7), 3, 1, items))
    assert items_in(bodies) == items
    assert len(bodies) == entries
    assert all(len(body) <= log.entry_size_max for body in bodies)


async def test_an_entry_of_several_is_no_command_that_a_follower_may_hand_over() -> None:
    """A node could hide commands of another session's numbers, or bytes that stop all, in one."""
    log: Any = Log()
    bodies: list[bytes] = []
    log.append_at_once = lambda some: bodies.extend(some) or log.appended
    applier: Any = Node().applier
    leading = Leading(log, applier, commands_max=lambda: 64)
    items: list[Item] = [(int(Kind.COMMANDS), 1, b"junk"), (int(Kind.COMMAND), 2, b"x")]
    leading.take(NodeId("n2"), Forward(Asker(1, 7), 3, 1, items))
    assert items_in(bodies) == [(Kind.COMMAND, 2, b"x")]


class Echo(ReplicatedStateMachine[int, int]):
    """Its result is the number of the command."""

    def apply(self, entry: Entry[int]) -> int:
        return entry.index


@pytest_asyncio.fixture
async def group(
    tmp_path: Path, new_address: Callable[[], str]
) -> AsyncIterator[MachineGroup[int, int]]:
    made = MachineGroup(tmp_path, new_address, Echo)
    yield made
    await made.close()


def taken(node: Any) -> int:
    """Entries that the log of a node has."""
    return int(node.log.store.last.index) + 1


async def burst(node: Any, count: int = 640) -> list[int]:
    waiting = [node.propose(0) for _ in range(count)]
    return [await within(one, "a result") for one in waiting]


async def test_commands_share_entries_once_all_members_say_that_they_read_them(
    group: MachineGroup[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of an older release among them: each has an entry of its own, until it is upgraded."""
    with monkeypatch.context() as older:
        older.setattr(machine_node, "LEVEL", 0)
        await group.start("n2")
    await group.start("n0", "n1")
    leader = await group.leader()
    if leader is group.nodes["n2"]:
        await group.stop("n2")
        leader = await group.leader()
        with monkeypatch.context() as older:
            older.setattr(machine_node, "LEVEL", 0)
            await group.start("n2")
        await group.leader()
    await burst(leader, 1)
    before = taken(leader)
    results = await burst(leader)
    assert results == sorted(set(results))
    assert taken(leader) - before >= 640
    await group.stop("n2")
    assert taken(leader) - before >= 640
    await group.start("n2")
    roster = leader.log.driver.roster
    await eventually(lambda: set(roster.levels().values()) == {1}, "all say their level")
    before = taken(leader)
    more = await burst(leader)
    assert more == sorted(set(more))
    assert more[0] > results[-1]
    assert 10 <= taken(leader) - before < 100
    for node in group.nodes.values():
        await eventually(lambda node=node: node.applied == leader.applied, "all applied")
        assert node.status().number == leader.status().number
    # Once the log has one, all must read them: also one that is away now.
    await group.stop("n2")
    before = taken(leader)
    await burst(leader)
    assert taken(leader) - before < 100


class Slow(Echo):
    """Takes a tenth of a second, by a clock that the test moves, for each command that is not 0."""

    clock_moved: Callable[[float], None] = staticmethod(lambda seconds: None)

    def apply(self, entry: Entry[int]) -> int:
        self.clock_moved(entry.command / 10)
        return entry.index


async def test_a_slow_machines_commands_share_no_entries(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine cannot be stopped inside an entry: 64 of these would keep the node silent."""
    group: MachineGroup[int, int] = MachineGroup(tmp_path, new_address, Slow, 1)
    await group.start()
    try:
        node = await group.leader()
        ahead, time = 0.0, node.log.owned.time

        def move(seconds: float) -> None:
            nonlocal ahead
            ahead += seconds

        monkeypatch.setattr(Slow, "clock_moved", staticmethod(move))
        monkeypatch.setattr(node.log.owned, "time", lambda: time() + ahead)
        for _ in range(8):
            await burst(node, 64)
        before = taken(node)
        await burst(node, 64)
        assert taken(node) - before < 10, "it is quick so far"
        assert await within(node.propose(1), "a result")
        before = taken(node)
        await burst(node, 64)
        assert taken(node) - before >= 16, "it begins anew, with a few"
        slow = [node.propose(1) for _ in range(64)]
        before = taken(node)
        for one in slow:
            await within(one, "a result")
        before = taken(node)
        slow = [node.propose(1) for _ in range(64)]
        for one in slow:
            await within(one, "a result")
        assert taken(node) - before >= 64
    finally:
        await group.close()


async def test_groups_of_a_host_share_entries_too(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    hosts = Hosts(tmp_path, new_address)
    try:
        await hosts.start()
        nodes = await hosts.open("a", Echo)
        leader = await leader_of(nodes)
        for _ in range(5):
            await burst(leader, 64)  # the leader learns that its machine is quick
        roster = leader.log.driver.roster
        await eventually(lambda: set(roster.levels().values()) == {1}, "all say their level")
        before = taken(leader)
        results = await burst(leader)
        assert results == sorted(set(results))
        assert taken(leader) - before < 100
    finally:
        await hosts.close()


def test_a_result_that_has_no_text_either_stops_the_node_with_its_place() -> None:
    """Python writes no whole number of more than 4,300 digits, in an error's text neither."""
    node = Node()
    node.machine.apply = lambda entry: 10**5000  # type: ignore[assignment, method-assign, return-value]
    node.apply(rows_of([pack_entry((Kind.OPEN, 7, b""), 5, 0, 0)]))
    with pytest.raises(StateMachineFailed, match="type int has no bytes") as failed:
        node.apply(rows_of([commands(1, 2)], 1))
    assert failed.value.index == 1
