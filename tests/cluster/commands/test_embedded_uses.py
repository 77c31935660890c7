"""Uses of `backup run --folder` and `restore --into`: Hosts, keep, members, and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from dledger import Entry, RaftConfig, ReplicatedNode, StateMachineFailed, WrongIdentity
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.objects.counter import ReplicatedCounter
from dledger.objects.kv import KeyValueStore
from tests.cluster.commands.test_embedded_backup import names_in, rows, run
from tests.dledger.machine.hosts import Hosts
from tests.dledger.runtime.group import Group
from tests.waiting import eventually, within

SMALL = {"data_file_size": 4 << 20, "index_file_size": 640_000, "entry_size_max": 1 << 20}


def alone(folder: Path, address: str, cluster: str = "old") -> RaftConfig:
    return RaftConfig("n0", {"n0": (address, 20911)}, folder, cluster_id=cluster, **SMALL)


async def counted(config: RaftConfig, *amounts: int) -> None:
    async with ReplicatedCounter(config, create=True) as counter:
        for amount in amounts:
            await within(counter.add(amount), "a total")


async def test_each_group_of_a_host_is_copied_and_restored_by_its_name(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    hosts = Hosts(tmp_path, new_address)
    await hosts.start("n0")
    host = hosts.hosts["n0"]
    orders = await host.open_object("orders", ReplicatedCounter, create=True, members=["n0"])
    keys = await host.open_object("keys", KeyValueStore, create=True, members=["n0"])
    await within(orders.add(41), "a total")
    await within(keys.put("a", b"1"), "a revision")
    folder = Path(hosts.configs["n0"].data_dir)
    await hosts.close()
    place = tmp_path / "place"
    made = rows("backup", "run", place, "--folder", folder)
    assert {row["group"] for row in made} == {"orders", "keys"}
    assert {row["not_known_entries"] for row in made} == {0}
    assert [row["whole"] for row in rows("backup", "verify", place)] == ["yes", "yes"]
    code, _, err = run("restore", place, "--into", tmp_path / "new", "--yes")
    assert (code, "several groups; name one with --group" in err) == (2, True)
    code, _, err = run("restore", place, "--group", "stock", "--into", tmp_path / "new", "--yes")
    assert (code, "has no group stock" in err) == (3, True)
    assert not (tmp_path / "new").exists()
    (row,) = rows("restore", place, "--group", "orders", "--into", tmp_path / "new", "--yes")
    config = replace(
        alone(tmp_path / "new", new_address(), row["cluster_id"]),
        group="orders",
    )
    async with ReplicatedCounter(config) as counter:
        assert await within(counter.add(1), "a total") == 42
    (row,) = rows("restore", place, "--group", "keys", "--into", tmp_path / "kv", "--yes")
    config = replace(alone(tmp_path / "kv", new_address(), row["cluster_id"]), group="keys")
    async with KeyValueStore(config) as store:
        await within(store.put("b", 2), "a revision")
        item = await within(store.get("a"), "an item")
        assert item is not None
        assert item.value == b"1"


class Kept(ReplicatedStateMachine[int, int]):
    """Its state is in a file of its own, as a database's is."""

    def __init__(self, file: Path) -> None:
        self.file, self.total, self.applied = file, 0, 0
        self.progress: bytes | None = None
        if file.exists():
            total, _, progress = file.read_bytes().partition(b"\n")
            self.total, self.progress = int(total), progress

    def apply(self, entry: Entry[int]) -> int:
        self.total, self.applied = self.total + entry.command, self.applied + 1
        return self.total

    def keep(self, progress: bytes) -> None:
        self.file.write_bytes(b"%d\n%b" % (self.total, progress))

    def kept(self) -> bytes | None:
        return self.progress

    def snapshot(self) -> bytes:
        return b"%d" % self.total

    def restore(self, state: bytes) -> None:
        self.total = int(state)


async def test_a_machine_that_keeps_its_state_goes_on_beside_a_restored_log(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Its files stand where the log was when it was copied; those that are further are refused."""
    old, file, place = alone(tmp_path / "old", new_address()), tmp_path / "file", tmp_path / "place"
    async with ReplicatedNode(old, Kept(file), create=True) as node:
        assert await within(node.propose(5), "a total") == 5
    rows("backup", "run", place, "--folder", tmp_path / "old")
    (row,) = rows("restore", place, "--into", tmp_path / "new", "--yes")
    new = replace(old, data_dir=tmp_path / "new", cluster_id=row["cluster_id"])
    machine = Kept(file)
    async with ReplicatedNode(new, machine) as node:
        assert await within(node.propose(2), "a total") == 7
    assert machine.applied == 1, "nothing that the files have is applied again"
    (row,) = rows("restore", place, "--into", tmp_path / "again", "--yes")
    again = replace(old, data_dir=tmp_path / "again", cluster_id=row["cluster_id"])
    with pytest.raises(StateMachineFailed, match="move them away, and it begins anew"):
        await ReplicatedNode(again, Kept(file)).start()
    file.rename(tmp_path / "away")
    machine = Kept(file)
    async with ReplicatedNode(again, machine) as node:
        assert await within(node.propose(1), "a total") == 6
    assert machine.applied == 2, "all of the log"


async def test_a_restored_member_does_not_get_into_a_group_that_runs(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    configs = Group(tmp_path, new_address).configs
    counters = {name: ReplicatedCounter(one, create=True) for name, one in configs.items()}
    for one in counters.values():
        await one.start()
    assert await within(counters["n0"].add(1), "a total") == 1
    place = tmp_path / "place"

    def is_copied() -> bool:
        (row,) = rows("backup", "run", place, "--folder", configs["n2"].data_dir)
        return bool(row["not_known_entries"] == 0 and row["to_index"] >= 2)

    await eventually(is_copied, "a backup of a follower or leader", 60)
    assert await within(counters["n0"].add(1), "a total") == 2
    await counters.pop("n2").close()
    (row,) = rows("restore", place, "--into", tmp_path / "new", "--member", "n2", "--yes")
    with pytest.raises(WrongIdentity, match="belongs to cluster"):
        await ReplicatedCounter(replace(configs["n2"], data_dir=tmp_path / "new")).start()
    stranger = ReplicatedCounter(
        replace(configs["n2"], data_dir=tmp_path / "new", cluster_id=row["cluster_id"])
    )
    await stranger.start()
    for _ in range(10):
        total = await within(counters["n0"].add(1), "a total of those that run")
    assert (total, await within(counters["n1"].value(), "the total")) == (12, 12)
    assert all(one.node.failure is None for one in counters.values())
    await stranger.close()
    for one in counters.values():
        await one.close()


async def test_two_clusters_with_groups_of_one_name_are_not_taken_for_replicas(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """One of them would not be copied, and nothing would say so."""
    place = tmp_path / "place"
    await counted(alone(tmp_path / "a", new_address(), "one"), 1)
    await counted(alone(tmp_path / "b", new_address(), "two"), 1, 2)
    code, _, err = run(
        "backup", "run", place, "--folder", tmp_path / "a", "--folder", tmp_path / "b"
    )
    assert (code, "of 2 clusters (one, two)" in err) == (2, True), err
    assert not place.exists()
    rows("backup", "run", place, "--folder", tmp_path / "a")
    found = CliRunner().invoke(dledger, ["backup", "run", str(place), "--folder", f"{tmp_path}/b"])
    assert "give each cluster a place of its own" in str(found.exception)


async def test_wrong_uses_write_nothing_and_say_what_to_do(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    place, file = tmp_path / "place", tmp_path / "file"
    await counted(alone(tmp_path / "old", new_address()), 1)
    rows("backup", "run", place, "--folder", tmp_path / "old")
    file.write_text("")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").write_text("")
    new = tmp_path / "new"
    wrong: list[tuple[list[Any], str]] = [
        (["--into", file, "--yes"], "is in use"),
        (["--into", tmp_path / "used", "--yes"], "is in use"),
        (["--into", new, "--node", file, "--yes"], "two kinds of folders"),
        (["--member", "n0", "--yes"], "--member is for --into"),
        (["--into", new, "--member", "n-1", "--member", "n2", "--yes"], "no '-'"),
        (["--into", new, "--member", "", "--yes"], "1 to 255 bytes"),
    ]
    before = names_in(tmp_path)
    for arguments, told in wrong:
        found = CliRunner().invoke(dledger, ["restore", str(place), *map(str, arguments)])
        err = f"{found.stderr}{found.exception}"
        assert (found.exit_code != 0, told in err) == (True, True), (arguments, err)
        assert names_in(tmp_path) == before, arguments
    code, out, err = run("restore", place, "--into", new, "-o", "json")
    assert (code, len(json.loads(out)), "nothing was written" in err) == (0, 1, True)
    assert not new.exists()
    code, _, err = run("restore", tmp_path / "none", "--into", new, "--yes")
    assert (code, "holds no backup" in err) == (3, True)
    assert not new.exists()
