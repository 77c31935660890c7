"""`dledger inspect`, `verify`, `status` on folders of embedded nodes, which answer no command."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import pytest_asyncio
from click.testing import CliRunner

from cluster.commands.inspect import groups_in, node_findings
from cluster.commands.repair import verify
from cluster.commands.status import status
from commitlog.files.system import OS_FILES
from commitlog.inspect import main
from dledger import RaftConfig, ReplicatedLog
from dledger.core.types import Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.log.log_start import LogStart
from dledger.log.node_storage import format_node, open_node
from dledger.objects.counter import ReplicatedCounter
from dledger.objects.kv import KeyValueStore
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.machine.group import MachineGroup
from tests.dledger.machine.hosts import Hosts
from tests.dledger.machine.test_saving import FILE, Lines, write
from tests.waiting import eventually, within


def rows_of(command: Any, *folders: Path) -> tuple[int, list[dict[str, Any]]]:
    found = CliRunner().invoke(command, [*map(str, folders), "-o", "json"])
    return found.exit_code, json.loads(found.stdout)


def text_of(command: Any, *folders: Path) -> str:
    return CliRunner().invoke(command, [*map(str, folders)]).output


@pytest_asyncio.fixture
async def hosts(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Hosts]:
    """Three that run; groups: a counter, and a store of keys."""
    made = Hosts(tmp_path, new_address, quiescence=None)
    await made.start()
    counters = [
        await host.open_object("orders", ReplicatedCounter, create=True)
        for host in made.hosts.values()
    ]
    stores = [
        await host.open_object("keys", KeyValueStore, create=True) for host in made.hosts.values()
    ]
    for number in range(5):
        await within(counters[number % 3].add(number), "a total")
        await within(stores[number % 3].put(f"k{number}", number), "a revision")
    nodes = [one.node for one in (*counters, *stores)]
    await eventually(
        lambda: all(node.log.status().applied >= 5 for node in nodes), "all applied", 60
    )
    yield made
    await made.close()


async def test_a_group_of_objects_is_whole_by_its_files(
    hosts: Hosts, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [Path(config.data_dir) for config in hosts.configs.values()]
    code, rows = rows_of(status, *folders)
    assert (code, {row["role"] for row in rows}, {row["up"] for row in rows}) == (
        0,
        {"open"},
        {True},
    )
    await hosts.close()
    code, rows = rows_of(status, *folders)
    assert code == 0
    assert [(row["node"], row["group"]) for row in rows] == [
        (name, group) for name in ("n0", "n1", "n2") for group in ("keys", "orders")
    ]
    assert {row["role"] for row in rows} == {"stopped"}
    assert all(row["last"] >= row["committed"] >= 5 and row["term"] >= 1 for row in rows)
    code, rows = rows_of(verify, *folders)
    assert (code, len(rows), {row["damaged_at"] for row in rows}) == (0, 6, {None})
    assert all(row["verified_to"] >= 5 for row in rows)
    assert "whole, and the same" in text_of(verify, *folders)
    for row in rows:
        assert main([row["folder"]], node_check=node_findings) == 0, capsys.readouterr().err
    assert "messages        " in capsys.readouterr().out


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    capsys.readouterr()
    code = main(list(arguments), node_check=node_findings, groups=groups_in)
    return code, *((told := capsys.readouterr()).out.splitlines(), told.err)  # type: ignore[return-value]


async def test_inspect_goes_through_the_groups_of_a_host(
    hosts: Hosts, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    await hosts.close()
    folder = Path(hosts.configs["n1"].data_dir)
    code, lines, errors = inspected(capsys, str(folder))
    assert (code, lines.count("whole"), errors) == (0, 2, "")
    assert [line.split()[1] for line in lines if line.startswith("folder ")] == ["keys", "orders"]
    code, lines, _ = inspected(capsys, str(folder), "-o", "json")
    rows = list(map(json.loads, lines))
    assert [(row["folder"], row["damaged"]) for row in rows] == [("keys", False), ("orders", False)]
    assert all(row["last_index"] >= 5 for row in rows)
    _, lines, _ = inspected(capsys, str(folder), "-o", "jsonl")
    assert {json.loads(line)["folder"] for line in lines} == {"keys", "orders"}
    code, _, errors = inspected(capsys, str(folder), "--rebuild", str(tmp_path / "out"))
    assert (code, "holds 2 groups; give --rebuild the folder of one" in errors) == (2, True)
    (file,) = (folder / "keys" / "data").iterdir()  # the first of two: the last one's code is 0
    data = bytearray(file.read_bytes())
    data[data.index(b"DLRM", data.index(b"DLRM") + 1) + 30] ^= 1
    file.write_bytes(data)
    code, lines, errors = inspected(capsys, str(folder))
    assert (code, lines.count("whole"), str(file.parent) in errors) == (1, 1, True)


async def test_a_damaged_entry_is_told_with_its_index(hosts: Hosts) -> None:
    await hosts.close()
    folder = Path(hosts.configs["n1"].data_dir)
    (file,) = (folder / "orders" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[data.index(b"DLRM", data.index(b"DLRM") + 1) + 30] ^= 1
    file.write_bytes(data)
    code, rows = rows_of(verify, *(Path(config.data_dir) for config in hosts.configs.values()))
    damaged = [row for row in rows if row["damaged_at"] is not None]
    assert (code, len(damaged)) == (1, 1)
    assert (damaged[0]["replica"], damaged[0]["group"]) == ("n1", "orders")
    assert damaged[0]["damaged_at"] == damaged[0]["verified_to"] + 1 < 5
    assert "repair themselves" in text_of(verify, folder)


def node_with(folder: Path, name: str, body: bytes) -> Path:
    """A stopped node with three entries, of which the second is `body`."""
    identity = Identity("c", "g", NodeId(name), data_file_size=16_384, index_file_size=2048)
    format_node(folder / name, identity, incarnation=1)
    node = open_node(folder / name, cluster_id="c", group="g", node_id=name, clock=lambda: 0.0)
    node.log.append([b"first", body, b"third"], Term(1))
    task = node.log.begin_sync()
    assert task is not None
    task.run()
    node.log.finish_sync(task)
    node.log.save_commit(Index(2))
    node.close()
    return folder / name


def test_replicas_that_differ_are_told(tmp_path: Path) -> None:
    """Each is whole by itself: only side by side it is seen, and two of three are believed."""
    bodies = {"n0": b"a", "n1": b"a", "n2": b"b"}
    folders = [node_with(tmp_path, name, body) for name, body in bodies.items()]
    assert [rows_of(verify, one)[0] for one in folders] == [0, 0, 0]
    assert rows_of(verify, *folders[:2])[0] == 0
    code, rows = rows_of(verify, *folders)
    assert (code, [row["damaged_at"] for row in rows]) == (1, [None, None, 1])
    assert rows[2]["reason"] == "another entry than the other replicas have"
    code, rows = rows_of(verify, *folders[1:])
    assert (code, [row["damaged_at"] for row in rows]) == (1, [1, 1]), "no majority"


async def test_a_state_that_rots_is_found_by_inspect(
    tmp_path: Path, new_address: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    group: MachineGroup[str, int] = MachineGroup(tmp_path, new_address, Lines, 1)
    small = {"data_file_size": FILE, "entry_size_max": FILE // 4}
    group.configs = {name: replace(c, **small) for name, c in group.configs.items()}  # type: ignore[arg-type]
    await group.start()
    node = group.nodes["n0"]
    while node.log.store.first_index == 0:
        await write(node, 20)
    await group.close()
    folder = Path(group.configs["n0"].data_dir)
    assert main([str(folder)], node_check=node_findings) == 0, capsys.readouterr().err
    begin = min(path.name for path in (folder / "data").iterdir())
    state = folder / "snapshots" / begin
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(data)
    capsys.readouterr()
    assert main([str(folder)], node_check=node_findings) == 1
    assert f"damaged: {state}" in capsys.readouterr().err
    assert rows_of(verify, folder)[0] == 1


def test_a_root_with_the_folders_of_nodes_is_a_store_and_no_host(tmp_path: Path) -> None:
    made = node_with(tmp_path, "dledger-n0", b"a")
    assert groups_in(OS_FILES, tmp_path) == groups_in(OS_FILES, made) == []
    assert groups_in(OS_FILES, tmp_path / "none") == []


@pytest.mark.parametrize("name", ["later", "recent"])
def test_a_later_state_that_rots_is_found_by_inspect(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log begins at entry 0, so no state is one where it begins."""
    folder = node_with(tmp_path, "n0", b"a")
    states, place = SnapshotFolder(OS_FILES, folder), LogStart(Term(1), Index(2), 3, 4000, 4096)
    states.save(place, [b"first", b"second"])
    states.save_recent(place, b"newest")
    assert inspected(capsys, str(folder)) == (0, ANY, "")
    assert rows_of(verify, folder)[0] == 0
    path = folder / "snapshots" / (f"{4096:020}" if name == "later" else name)
    whole = path.read_bytes()
    for harmed in (whole[:-1], whole[:20], whole[:-1] + b"?", b"?" + whole[1:]):
        path.write_bytes(harmed)
        code, _, errors = inspected(capsys, str(folder))
        assert code == 1
        assert errors.startswith(f"damaged: {path}: this state is damaged; a start takes an older")
        assert rows_of(verify, folder)[0] == 1


@pytest.mark.parametrize("command", [verify, status])
def test_a_folder_without_a_node_is_refused(command: Any, tmp_path: Path) -> None:
    assert "is no folder of a node" in str(
        CliRunner().invoke(command, [str(tmp_path)]).exception
    ) + text_of(command, tmp_path)


def test_one_replica_with_a_lost_vote_is_told_by_status(tmp_path: Path) -> None:
    config = RaftConfig("n0", {"n0": ("127.0.0.1", 0)}, tmp_path / "n0", cluster_id="c")
    ReplicatedLog.format(config)
    (tmp_path / "n0" / "hardstate").write_bytes(bytes(8192))
    copy = shutil.copytree(tmp_path / "n0", tmp_path / "copy")
    assert rows_of(status, copy)[1][0]["disk"] == "lost: hardstate"
