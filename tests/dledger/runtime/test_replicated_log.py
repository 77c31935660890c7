"""Three replicas over real sockets and files: elect, append, lose one, come back, hand over."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commitlog.errors import StoreLayoutError, StoreLocked
from dledger import (
    Durability,
    EntryTooLarge,
    LogEntry,
    LogUsageError,
    NodeFailed,
    NotFormatted,
    NotLeader,
    Outcome,
    OutcomeUnknown,
    Proposal,
    QueueFull,
    ReplicatedLog,
    SequenceGap,
    StateMachineFailed,
    WrongIdentity,
)
from dledger.config import ENTRY_SIZE_LIMIT
from dledger.core.types import NodeId, Role, Term
from dledger.replica.envelope import noop_body
from dledger.replica.ports import SyncWork
from dledger.runtime.sync_thread import SyncThread
from tests.waiting import within

from .group import Group, until


async def take(log: ReplicatedLog, after: int, count: int) -> list[LogEntry]:
    got: list[LogEntry] = []
    async for entry in log.committed(after=after):
        got.append(entry)
        if len(got) == count:
            break
    return got


async def test_entries_are_the_same_everywhere_and_in_order(group: Group) -> None:
    await group.start()
    log = await group.leader()
    bodies = [os.urandom(100) for _ in range(300)]
    indexes = await asyncio.gather(*[log.append(body) for body in bodies])
    assert list(indexes) == list(range(indexes[0], indexes[0] + 300))
    for replica in group.logs.values():
        entries = await take(replica, indexes[0] - 1, 300)
        assert [entry.body for entry in entries] == bodies
        assert [entry.index for entry in entries] == list(indexes)
        assert {entry.term for entry in entries} == {log.status().node.term}


async def test_one_turn_is_one_proposal(group: Group) -> None:
    await group.start()
    log = await group.leader()
    proposals: list[int] = []
    propose = log._turn._propose
    log._turn._propose = lambda batch: (proposals.append(len(batch.bodies)), propose(batch))[1]
    single, many, last = await asyncio.gather(
        log.append(b"a"), log.append_many([b"b", b"c"]), log.append(b"d")
    )
    assert proposals == [4]
    assert (many, last) == (range(single + 1, single + 3), single + 3)


async def test_a_majority_in_memory_answers_before_any_sync(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R22: told early, seen by no reader before it is on disks."""
    await group.start()
    log = await group.leader()
    held: list[tuple[SyncThread, SyncWork]] = []
    with monkeypatch.context() as patch:
        patch.setattr(SyncThread, "submit", lambda lane, work: held.append((lane, work)))
        strong, early = log.append(b"a"), log.append(b"b", durability=Durability.MAJORITY_IN_MEMORY)
        assert await within(early, "an answer before any sync") == log.applied + 2
        assert not strong.done()
        with pytest.raises(IndexError, match="not among the committed"):
            await log.read(early.result())
    for lane, work in held:
        lane.submit(work)
    assert await strong == early.result() - 1
    assert (await log.read(early.result())).body == b"b"
    with pytest.raises(LogUsageError, match="majority-in-memory"):
        log.append(b"c", producer="p", sequence=0, durability=Durability.MAJORITY_IN_MEMORY)


async def test_a_follower_refuses_and_says_who_leads(group: Group) -> None:
    await group.start()
    log = await group.leader()
    follower = group.followers()[0]
    with pytest.raises(NotLeader) as refused:
        await follower.append(b"x")
    assert refused.value.leader == log.config.node_id
    assert refused.value.outcome is Outcome.NOT_DONE


async def test_linearizable_reads_on_every_replica(group: Group) -> None:
    await group.start()
    log = await group.leader()
    index = await log.append(b"seen at once")
    for replica in group.logs.values():
        assert (await replica.read(index)).body == b"seen at once"
        with pytest.raises(IndexError, match="not among the committed"):
            await replica.read(index + 1)
    assert (await log.read(0, staleness=math.inf)).noop


async def test_reads_that_may_be_a_little_old_need_one_round(group: Group) -> None:
    await group.start()
    log = await group.leader()
    index = await log.append(b"seen")
    follower = group.followers()[0]
    assert (await follower.read(index)).body == b"seen"
    await group.stop(log.config.node_id)
    assert (await follower.read(index, staleness=60)).body == b"seen", "nobody is asked"
    with pytest.raises((NotLeader, QueueFull)):
        await follower.read(index, staleness=1e-9)


async def test_leader_stops_the_others_go_on_and_it_catches_up(group: Group) -> None:
    await group.start()
    old = await group.leader()
    first = await old.append(b"one")
    name = old.config.node_id
    await group.stop(name)
    new = await group.leader()
    last = (await asyncio.gather(*[new.append(os.urandom(9000)) for _ in range(500)]))[-1]
    await group.start(name)
    await group.logs[name].wait(last)
    assert (await group.logs[name].read(first)).body == b"one"
    assert new.status().node.peers
    files = [sorted((Path(c.data_dir) / "data").iterdir()) for c in group.configs.values()]
    await group.close()
    for same in zip(*files, strict=True):
        assert len({path.read_bytes() for path in same}) == 1, "replicas are byte-identical"


async def test_a_restart_of_all_keeps_everything(group: Group) -> None:
    await group.start()
    index = await (await group.leader()).append(b"kept")
    await group.close()
    await group.start()
    log = await group.leader()
    assert (await log.read(index)).body == b"kept"
    assert log.status().node.term >= 2


async def test_transfer_moves_leadership_where_it_is_told(group: Group) -> None:
    await group.start()
    log = await group.leader()
    target = group.followers()[0]
    await log.transfer(target.config.node_id)
    await until(lambda: target.is_leader)
    assert await (await group.leader()).append(b"after") > 0


async def test_pending_appends_have_an_unknown_outcome_when_the_leader_is_alone(
    group: Group,
) -> None:
    await group.start()
    log = await group.leader()
    for follower in group.followers():
        await group.stop(follower.config.node_id)
    with pytest.raises(OutcomeUnknown) as unknown:
        await log.append(b"maybe")
    assert unknown.value.outcome is Outcome.UNKNOWN
    assert not log.is_leader


async def test_closing_ends_everyone_who_waits(group: Group) -> None:
    await group.start()
    log = await group.leader()
    waiting = asyncio.ensure_future(log.wait(10_000))
    reading = asyncio.ensure_future(take(log, -1, 10_000))
    await asyncio.sleep(0)
    await group.stop(log.config.node_id)
    for task in (waiting, reading):
        with pytest.raises(NodeFailed):
            await task
    with pytest.raises(NodeFailed):
        log.append(b"x")
    await log.close()  # again: nothing happens


async def test_a_retry_is_stored_once_also_at_another_leader(group: Group) -> None:
    """Rules R8 and R9 through a failover, the table rebuilt from the log."""
    await group.start()
    log = await group.leader()
    sent = [log.append(b"%d" % n, producer="p", sequence=n) for n in range(20)]
    indexes = await asyncio.gather(*sent)
    assert await log.append(b"19", producer="p", sequence=19) == indexes[19]
    with pytest.raises(SequenceGap):
        await log.append(b"21", producer="p", sequence=21)
    await group.stop(log.config.node_id)
    log = await group.leader()
    assert await log.append(b"7", producer="p", sequence=7) == indexes[7]
    index = await log.append(b"20", producer="p", sequence=20)
    entry = await log.read(index)
    assert (entry.body, entry.tag) == (b"20", ("p", "", 20))
    bodies = [entry.body for entry in await take(log, indexes[0] - 1, 21 + 1) if entry.tag]
    assert bodies == [b"%d" % n for n in range(21)]


async def test_a_retry_in_the_same_turn_is_stored_once(group: Group) -> None:
    await group.start()
    log = await group.leader()
    both = [log.append(b"x", producer="p", sequence=0) for _ in range(2)]
    first, second = await asyncio.gather(*both)
    assert first == second
    assert log.store.last.index == first


async def test_r9_a_refused_proposal_leaves_no_trace_in_the_table(group: Group) -> None:
    await group.start()
    log = await group.leader()
    first = await log.append(b"0", producer="p", sequence=0)
    follower = group.followers()[0]
    await until(lambda: follower.applied >= first)  # else it asks whether it knows the producer
    with pytest.raises(NotLeader):
        await follower.append(b"1", producer="p", sequence=1)
    await log.transfer(follower.config.node_id)
    await until(lambda: follower.is_leader)
    log = await group.leader()
    index = await log.append(b"1", producer="p", sequence=1)
    assert (await log.read(index)).body == b"1"


async def test_bodies_are_checked_before_anything_happens(group: Group) -> None:
    await group.start("n0")
    log = group.logs["n0"]
    with pytest.raises(EntryTooLarge, match="are allowed"):
        log.append(bytes(log.config.entry_size_max + 1))
    with pytest.raises(LogUsageError, match="envelopes"):
        log.append(noop_body(NodeId("n9"), Term(1), 0))
    with pytest.raises(LogUsageError):
        log.append_many([])
    with pytest.raises(EntryTooLarge, match="one frame"):
        log.propose(Proposal([bytes(ENTRY_SIZE_LIMIT + 1)], lambda _proposal, _error: None))


async def test_the_files_of_the_folder_bound_an_entry_too(group: Group) -> None:
    """The file size was fixed when the folder was formatted, whatever the settings say now."""
    for name in group.configs:
        group.change(name, data_file_size=64 << 10, entry_size_max=60 << 10)
        ReplicatedLog.format(group.configs[name])
        group.change(name, data_file_size=1 << 30, entry_size_max=1 << 20)
    await group.start()
    log = await group.leader()
    with pytest.raises(EntryTooLarge, match="65480 are allowed"):
        log.append(bytes(65_481))
    whole, tagged = log.append(bytes(65_480)), log.append(bytes(65_480), producer="p", sequence=0)
    assert await whole > 0
    with pytest.raises(EntryTooLarge, match="envelope"):
        await tagged
    assert await log.append(b"x", producer="p", sequence=0) > 0


async def test_a_folder_is_formatted_once_and_opened_by_its_owner(group: Group) -> None:
    config = group.configs["n0"]
    with pytest.raises(NotFormatted):
        await ReplicatedLog(config).start()
    with pytest.raises(LogUsageError, match="cluster_id"):
        ReplicatedLog.format(replace(config, cluster_id=""))
    await group.start("n0")
    with pytest.raises(StoreLayoutError):
        ReplicatedLog.format(config)
    with pytest.raises(StoreLocked):
        await ReplicatedLog(config).start()
    await group.stop("n0")
    with pytest.raises(WrongIdentity):
        await ReplicatedLog(replace(config, cluster_id="other")).start()


async def test_a_taken_port_is_said_and_leaves_nothing_open(group: Group) -> None:
    await group.start("n0")
    group.change("n1", listen=group.configs["n0"].peers["n0"])
    with pytest.raises(OSError, match="cannot listen on"):
        await group.start("n1")
    group.change("n1", listen=None)
    await group.start("n1")


@pytest.mark.parametrize(
    "returned",
    [
        lambda first, last: first - 1,
        lambda first, last: last + 1,
        lambda first, last: True,
        lambda first, last: float(last),
        lambda first, last: "all",
    ],
    ids=["none", "more", "a bool", "a float", "a word"],
)
async def test_a_machine_that_returns_what_is_no_applied_entry_stops_its_node(
    group: Group, returned: Callable[[int, int], Any]
) -> None:
    """Else more would pass for applied than is, or an entry be applied twice."""
    given: list[tuple[int, int]] = []

    class Machine:
        def apply(self, first: int, last: int) -> Any:
            given.append((first, last))
            return returned(first, last)

        def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
            pass

    await group.start("n1", "n2")
    await (await group.leader()).append(b"x")
    ReplicatedLog.format(group.configs["n0"])
    log = group.logs["n0"] = ReplicatedLog(group.configs["n0"], Machine())
    await log.start()
    with pytest.raises(StateMachineFailed, match="return the last entry that was applied"):
        await within(log.wait(index=99), "the end of the node")
    assert len(given) == 1
    assert log.applied == given[0][0] - 1


async def test_a_machine_of_the_embedder_is_told(tmp_path: Path, group: Group) -> None:
    class Machine:
        def __init__(self) -> None:
            self.applied: list[tuple[int, int]] = []
            self.roles: list[Role] = []

        def apply(self, first: int, last: int) -> None:
            self.applied.append((first, last))

        def role_changed(self, role: Role, term: Term, leader: NodeId | None) -> None:
            self.roles.append(role)

    await group.start("n1", "n2")
    ReplicatedLog.format(group.configs["n0"])
    machine = Machine()
    group.logs["n0"] = ReplicatedLog(group.configs["n0"], machine)
    await group.logs["n0"].start()
    log = await group.leader()
    last = await log.append(b"x")
    await group.logs["n0"].wait(last)
    told = [index for first, end in machine.applied for index in range(first, end + 1)]
    assert told == list(range(last + 1)), "each index once, in order"
    assert machine.roles
