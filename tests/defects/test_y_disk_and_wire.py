"""Defects of PySyncObj on disk and wire: docs/spec/raft_log.md 5, Y3 Y6 Y10 Y11 Y14."""

from __future__ import annotations

import ast
import errno
import pickle
from pathlib import Path

import pytest

from commitlog.errors import StoreDamaged
from dledger.core.messages import AppendReply
from dledger.core.types import Index, NodeId, Role
from dledger.durable.identity import Identity
from dledger.errors import DledgerError, MalformedFrame, OutcomeUnknown
from dledger.wire.frames import FrameDecoder
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import FOLDER, Clock, dump, fill, make, mark, reopen, sync
from tests.dledger.replica.test_replica import Net, proposal

ROOT = Path(__file__).parents[2]
#: Copies values in memory, from one thread to another; its bytes reach neither a file nor a socket.
COPIES_IN_MEMORY = ("dledger/objects/attributes.py", "marshal")
PICKLES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"}


def test_y03_an_acknowledgement_waits_for_the_sync() -> None:
    """There: journal writes go to a mapping that nobody ever syncs."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []
    leader.replica.propose(proposal(outcomes), net.now)
    net.deliver(sync=False)
    assert (net["n1"].log.last.index, net["n1"].log.flushed) == (1, 0)
    assert not [m for _, _, m in net.wires if isinstance(m, AppendReply)]
    assert outcomes == []
    net["n1"].sync("log")
    replies = [m for _, _, m in net.wires if isinstance(m, AppendReply)]
    assert [reply.flushed for reply in replies] == [net["n1"].log.flushed] == [1]


def test_y06_nothing_that_serves_unpickles() -> None:
    """There: whoever can connect runs code. (The name server's soft data is pysyncobj's, R26.)"""
    found = []
    for package in ("commitlog", "dledger", "cluster", "pipeline"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not any(name in text for name in PICKLES):
                continue
            for node in ast.walk(ast.parse(text)):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                where = path.relative_to(ROOT).as_posix()
                found += [(where, name) for name in names if name.split(".")[0] in PICKLES]
    assert found == [COPIES_IN_MEMORY]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_y06_a_pickle_on_the_wire_is_a_malformed_frame(protocol: int) -> None:
    """It costs its sender the connection."""
    data = pickle.dumps({"type": "append_entries", "term": 7, "commit": 9}, protocol)
    decoder = FrameDecoder()
    room = decoder.get_buffer()
    room[: len(data)] = data
    with pytest.raises(MalformedFrame):
        list(decoder.frames(len(data)))


def test_y10_a_large_first_record_behind_4_gib_with_checksums() -> None:
    """There: 32-bit offsets, one doubling per write (a 10 KB first record fails), no checksum."""
    start = 5 << 30
    identity = Identity("cluster", "group", NodeId("n0"), 65_536, 256, first_position=start)
    disk = CrashDisk()
    log = make(disk, identity=identity).log
    fill(log, 1, size=10_000)
    fill(log, 20, size=9_000)
    sync(log)
    mark(log)
    wanted = dump(log)
    assert (log.position_of(Index(0)), len(wanted)) == (start, 21)
    log = reopen(disk, cache_size_max=0).log
    assert dump(log) == wanted
    disk.flip(FOLDER / "data" / f"{start:020}", 5_000)
    with pytest.raises(StoreDamaged):
        log.entry(Index(0))


def test_y11_a_commit_hint_newer_than_the_log_does_not_stop_the_start() -> None:
    """There: the meta file is newer than the journal after a crash, and the start hangs."""
    disk, clock = CrashDisk(), Clock()
    make(disk).close()
    log = reopen(disk, clock=clock).log
    fill(log, 3)
    sync(log)
    fill(log, 5)
    log.save_commit(Index(7))
    clock.now += 10
    mark(log)
    disk.crash(keep=0.0)
    log = reopen(disk).log
    assert log.commit_hint <= log.last.index
    assert len(dump(log)) >= 3
    fill(log, 2)
    sync(log)


def test_y14_a_leader_with_a_full_disk_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """There: it goes on leading."""
    net = Net()
    leader = net.elect()
    outcomes: list[DledgerError | None] = []

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(leader.log, "append", full)
    leader.replica.propose(proposal(outcomes), net.now)
    assert leader.replica.node.role is Role.FAILED
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown]
    other = net.elect("n1")
    other.replica.propose(proposal(outcomes), net.now)
    net.deliver()
    assert outcomes[1:] == [None]
