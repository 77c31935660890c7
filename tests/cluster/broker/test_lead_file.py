"""The leaders that a node has seen are known after a restart."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.admin.lead_file import NAME, SIZE_MAX, LeadFile
from cluster.core.lead_history import KEPT, LeadSeen
from cluster.protocol.codes import RequestCode
from commitlog.files.system import OsFileSystem
from dledger.core.types import NodeId, Role, Term
from tests.waiting import limit

from .conftest import MakeBrokers
from .harness import Brokers, until

SINCE_MS, NOW_MS = 1_700_000_000_000, 1_800_000_000_000
ROW = {"at_ms": SINCE_MS + 5, "term": 3, "leader": "n0", "why": "not-heard"}


def file_in(root: Path, files: OsFileSystem | None = None) -> LeadFile:
    (root / "staging").mkdir(exist_ok=True)
    return LeadFile(files or OsFileSystem(), root, root / "staging", NOW_MS)


def write(root: Path, *rows: Any, since_ms: Any = SINCE_MS) -> None:
    (root / NAME).write_text(json.dumps({"since_ms": since_ms, "rows": rows}))


async def rows_of(brokers: Brokers, at: int = 0) -> dict[str, Any]:
    client = await brokers.client(brokers.nodes[at])
    answer = await client.ask(RequestCode.LIST_LEADERS, {"bname": "broker-a"})
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(answer.body)
    return found


@pytest.mark.parametrize("how", ["clean", "killed"])
async def test_a_restart_keeps_the_leaders_that_were_seen(
    make_brokers: MakeBrokers, how: str
) -> None:
    async with make_brokers() as brokers:
        await brokers.leader()
        before = await rows_of(brokers)
        path = brokers.root / "n0" / NAME
        await until(
            lambda: path.exists() and json.loads(path.read_bytes())["rows"] == before["rows"]
        )
        kept = path.read_bytes()
        await brokers.stop_node(0)
        if how == "killed":  # what the stop wrote is taken back
            path.write_bytes(kept)
        await brokers.start_node(0)
        await brokers.leader()
        after = await rows_of(brokers)
        assert after["since_ms"] == before["since_ms"]
        known = len(before["rows"])
        assert after["rows"][:known] == before["rows"]
        assert after["rows"][known]["term"] > before["rows"][-1]["term"]


async def test_the_last_leader_of_all_is_written_when_a_node_stops(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers() as brokers:
        node = await brokers.leader()
        node.parts.admin.ports.leads.told(Role.FOLLOWER, Term(7), NodeId("n9"), NOW_MS)
        await brokers.stop_node(0)
        (*_, last) = json.loads((brokers.root / "n0" / NAME).read_bytes())["rows"]
        assert last == {"at_ms": NOW_MS, "term": 7, "leader": "n9", "why": ""}


@pytest.mark.parametrize(
    "rows",
    [
        [[]],
        [ROW | {"term": "3"}],
        [ROW | {"term": True}],
        [ROW | {"term": -1}],
        [ROW | {"at_ms": None}],
        [ROW | {"at_ms": 10**18}],
        [ROW | {"leader": 5}],
        [ROW | {"leader": ""}],
        [ROW | {"why": "because"}],
        [ROW, ROW],
        [ROW | {"term": term} for term in range(KEPT + 1)],
    ],
    ids=lambda rows: repr(rows)[:40],
)
def test_a_file_that_is_wrong_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: list[Any]
) -> None:
    write(tmp_path, ROW)
    assert [row.term for row in file_in(tmp_path).history.rows] == [3], "one that is right"
    write(tmp_path, *rows)
    with caplog.at_level(logging.WARNING):
        history = file_in(tmp_path).history
    assert (history.rows, history.since_ms) == ([], NOW_MS)
    assert NAME in caplog.text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"x" * (SIZE_MAX + 1)])
def test_bytes_that_are_no_list_of_leaders_are_passed_over(tmp_path: Path, body: bytes) -> None:
    (tmp_path / NAME).write_bytes(body)
    assert file_in(tmp_path).history.rows == []


def test_rows_of_another_history_give_way(tmp_path: Path) -> None:
    """A folder that was put together by hand may have the file of another cluster."""
    write(tmp_path, ROW, ROW | {"term": 90})
    history = file_in(tmp_path).history
    history.told(Role.FOLLOWER, Term(4), NodeId("n1"), NOW_MS)
    assert history.rows == [LeadSeen(**ROW), LeadSeen(NOW_MS, 4, "n1", "")]


async def test_a_disk_that_refuses_the_file_stops_nothing_and_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = OsFileSystem()
    file = file_in(tmp_path, files)
    file.history.told(Role.FOLLOWER, Term(4), NodeId("n1"), NOW_MS)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(files, "write_atomic", refuse)
        await file.save()
        await file.save()
    assert caplog.text.count(NAME) == 1
    await file.save()
    assert [row.term for row in file_in(tmp_path).history.rows] == [4]


class Watched:
    """A lock that says when it is asked for."""

    def __init__(self) -> None:
        self._lock, self.asked = threading.Lock(), 0

    def __enter__(self) -> None:
        self.asked += 1
        assert self._lock.acquire(timeout=limit(10))

    def __exit__(self, *_: object) -> None:
        self._lock.release()


async def test_a_write_of_a_caller_that_was_cancelled_ends_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Housekeeping is cancelled when a node stops, which then saves once more."""
    files, lock = OsFileSystem(), Watched()
    file, write = file_in(tmp_path, files), files.write_atomic
    goes_on, begun, order = threading.Event(), threading.Event(), list[str]()

    def slow(*args: Any, **named: Any) -> None:
        begun.set()
        assert goes_on.wait(limit(10))
        order.append("first")
        write(*args, **named)

    def quick(*args: Any, **named: Any) -> None:
        order.append("last")
        write(*args, **named)

    monkeypatch.setattr(file, "_one_at_a_time", lock)
    monkeypatch.setattr(files, "write_atomic", slow)
    file.history.told(Role.FOLLOWER, Term(4), NodeId("n1"), NOW_MS)
    first = asyncio.create_task(file.save())
    await until(begun.is_set)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    monkeypatch.setattr(files, "write_atomic", quick)
    file.history.told(Role.FOLLOWER, Term(5), NodeId("n2"), NOW_MS)
    last = asyncio.create_task(file.save())
    await until(lambda: lock.asked == 2 or order == ["last"])
    goes_on.set()
    await last
    assert order == ["first", "last"]
    assert [row.term for row in file_in(tmp_path).history.rows] == [4, 5]
