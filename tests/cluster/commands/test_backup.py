"""`dledger backup` and `dledger restore` as a user types them, on a cluster that runs."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from cluster.backup.errors import BackupDamaged, BackupGap, PlaceFailed
from cluster.backup.manifest import NAME
from cluster.backup.places import FolderPlace
from cluster.backup.restoring import Restored, Until
from cluster.cli import dledger
from cluster.client import connect
from cluster.commands import backup, backup_audit, restore
from cluster.commands.connecting import Reach
from cluster.local.launcher import LocalCluster
from tests.conftest import MakeCluster


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of a command."""
    found = CliRunner().invoke(dledger, list(arguments))
    return found.exit_code, found.stdout, found.stderr


def rows(*arguments: str) -> list[dict[str, object]]:
    """What a command that succeeds prints as JSON."""
    code, out, err = run(*arguments, "-o", "json")
    assert code == 0, err
    return list(json.loads(out))


async def send(cluster: LocalCluster, first: int, last: int) -> None:
    async with connect(cluster.nameserver) as client, client.producer() as producer:
        for number in range(first, last):
            await producer.send("letters", f"{number}".encode(), key=f"k{number}")


async def consume(cluster: LocalCluster, count: int) -> list[str]:
    """The next messages of group `readers`, whose place is committed."""
    found = []
    async with (
        connect(cluster.nameserver) as client,
        client.consumer("letters", group="readers") as consumer,
    ):
        while len(found) < count:
            message = await consumer.receive()
            assert message is not None
            found.append(bytes(message.body).decode())
            consumer.ack(message)
    return sorted(found, key=int)


@pytest.mark.timeout(120)
def test_a_nodes_folder_is_restored_where_its_environment_says(
    make_cluster: MakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `node run` of the same file reads it."""
    cluster, place = make_cluster(nodes=1), str(tmp_path / "backup")
    asyncio.run(send(cluster, 0, 3))
    rows("backup", "run", place, "--root", str(cluster.root))
    file, elsewhere = tmp_path / "n0.toml", tmp_path / "elsewhere"
    member = ("--member", "n0=127.0.0.1", "--no-format")
    assert run("node", "init", str(file), *member)[0] == 0
    monkeypatch.setenv("DLEDGER_RAFT_DATA_DIR", str(elsewhere))
    (row,) = rows("restore", place, "--node", str(file), "--yes")
    assert row["into"] == str(elsewhere)
    assert elsewhere.is_dir()


@pytest.mark.timeout(120)
def test_a_node_gets_no_other_groups_log(make_cluster: MakeCluster, tmp_path: Path) -> None:
    place, file = str(tmp_path / "backup"), tmp_path / "n0.toml"
    for settings in ({}, {"raft.group": "second"}):
        cluster = make_cluster(nodes=1, settings=settings)
        rows("backup", "run", place, "--root", str(cluster.root))
    member = ("--member", "n0=127.0.0.1", "--no-format", "--set", "raft.group=second")
    assert run("node", "init", str(file), *member)[0] == 0
    restore = ("restore", place, "--node", str(file), "--yes", "--group")
    code, _, said = run(*restore, "default")
    assert (code, "give --group second" in said) == (2, True), said
    (row,) = rows(*restore, "second")
    assert row["group"] == "second"


@pytest.mark.timeout(120)
def test_lost_cluster_is_restored_with_its_messages_and_positions(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    """Sent, consumed in part, backed up twice; the cluster is gone; a new one goes on."""
    cluster, place = make_cluster(nodes=1), str(tmp_path / "backup")
    asyncio.run(send(cluster, 0, 20))
    (first,) = rows("backup", "run", place, "--root", str(cluster.root))
    assert first["added_entries"] == first["entries"]
    assert asyncio.run(consume(cluster, 20)) == [str(n) for n in range(20)]
    asyncio.run(send(cluster, 20, 30))
    (second,) = rows("backup", "run", place, "--root", str(cluster.root))
    assert int(str(second["to_index"])) > int(str(first["to_index"]))
    assert rows("backup", "verify", place)[0]["whole"] == "yes"
    assert rows("backup", "show", place)[0]["entries"] == second["entries"]
    cluster.down()
    shutil.rmtree(cluster.folder("n0"))

    root = tmp_path / "new"
    options = ("--root", str(root), "-n", "1", "--any-port")
    code, _, err = run("restore", place, *options)
    assert (code, root.exists()) == (0, False)
    assert "--yes" in err
    (row,) = rows("restore", place, *options, "--yes")
    assert (row["entries"], row["to_index"]) == (second["entries"], second["to_index"])
    code, _, err = run("restore", place, *options, "--yes")
    assert (code, "has a cluster already" in err) == (2, True)
    new = LocalCluster(root, tied=True)
    try:
        new.up()
        (entry,) = [row for row in rows("audit", "-a", new.nameserver) if row["verb"] == "restore"]
        assert (entry["target"], entry["outcome"]) == (f"backup {place}", "done")
        assert entry["parameters"]["to_index"] == row["to_index"]
        assert asyncio.run(consume(new, 10)) == [str(n) for n in range(20, 30)]
        asyncio.run(send(new, 30, 31))
        assert asyncio.run(consume(new, 1)) == ["30"]
    finally:
        new.down()


class Stopped(Exception):
    """The user interrupts."""


@pytest.mark.parametrize(
    ("error", "rounds"),
    [
        (PlaceFailed("the store is away"), 3),
        (OSError(errno.ENOSPC, "no space"), 3),
        (BackupGap("the log begins behind the backup"), 1),
        (BackupDamaged("the manifest is not as it was written"), 1),
    ],
)
def test_round_that_may_succeed_later_is_tried_again(
    error: Exception, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--every` outlives a store that is away, and ends where no other round can succeed."""
    tried, slept = list[int](), list[float]()

    def replicas(*_: object) -> list[object]:
        tried.append(1)
        raise error

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise Stopped

    monkeypatch.setattr(backup, "_replicas", replicas)
    monkeypatch.setattr(backup, "_has_files", lambda *_: True)
    monkeypatch.setattr(backup.time, "sleep", sleep)
    found = CliRunner().invoke(dledger, ["backup", "run", str(tmp_path), "--every", "5"])
    assert len(tried) == rounds
    assert isinstance(found.exception, Stopped if rounds == 3 else type(error))
    assert found.stderr.count(f"tried again in 5 s: {error}") == (rounds if rounds == 3 else 0)


def test_a_full_disk_ends_a_restore_and_no_note_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write_atomic(self, path: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(restore, "OS_FILES", Full())
    manifest: Any = SimpleNamespace(log=SimpleNamespace(group="default"))
    done = Restored(1, 1, 0, 7)
    with pytest.raises(OSError, match="no space"):
        restore.leave_note([tmp_path], FolderPlace(tmp_path), manifest, done, Until())
    assert list(tmp_path.iterdir()) == []


def test_it_waits_for_a_cluster_that_is_not_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `--every` it says that there is none; with it, it looks until there is one."""
    root, slept = tmp_path / "later", list[float]()
    words = ["backup", "run", str(tmp_path / "place"), "--root", str(root)]
    found = CliRunner().invoke(dledger, words)
    assert "no local cluster is known" in str(found.exception)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:  # somebody makes it now
            monkeypatch.setattr(backup, "_has_files", lambda *_: True)
            monkeypatch.setattr(backup, "_replicas", lambda *_: [])
        if len(slept) == 4:
            raise Stopped

    monkeypatch.setattr(backup.time, "sleep", sleep)
    found = CliRunner().invoke(dledger, [*words, "--every", "5"])
    assert isinstance(found.exception, Stopped), found.output
    assert found.stderr.count(f"no replica has files in {root} yet") == 1
    assert slept[:3] == [5, 5, 5]


def test_brokers_are_looked_for_before_each_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager may start it before the cluster; once, a command is told that it is not."""
    asked, slept, told = list[int](), list[float](), list[str]()

    def running(*_: object) -> tuple[Reach, list[str]]:
        asked.append(len(slept))
        return Reach("127.0.0.1:1"), ["broker-a"] if len(slept) == 2 else []

    async def recorded(*of: Any) -> str:
        told.append(f"{of[2]}, round {len(slept)}")
        return ""

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise Stopped

    monkeypatch.setattr(backup, "_running", running)
    monkeypatch.setattr(backup, "_replicas", lambda *_: [])
    monkeypatch.setattr(backup, "_has_files", lambda *_: True)
    monkeypatch.setattr(backup_audit, "_recorded", recorded)
    monkeypatch.setattr(backup.time, "sleep", sleep)
    found = CliRunner().invoke(dledger, ["backup", "run", str(tmp_path), "--every", "5"])
    assert isinstance(found.exception, Stopped), found.output
    assert asked == [0, 1, 2]
    assert told == ["backup begin, round 2", "backup end, round 4"]


def test_place_without_a_backup_is_told(tmp_path: Path) -> None:
    for words in (("backup", "show"), ("backup", "verify"), ("restore",)):
        code, _, err = run(*words, str(tmp_path / "nothing"))
        assert (code, f"holds no backup ({NAME}); dledger backup run" in err) == (3, True)


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    """Exit code 1, and the part's name."""
    from cluster.backup.places import FolderPlace
    from tests.cluster.backup.logs import Source
    from tests.cluster.backup.test_backups import save

    source = Source(tmp_path / "source" / "dledger-n0")
    source.add(5)
    piece = save(source, FolderPlace(tmp_path / "backup")).manifest.pieces[0]
    source.storage.close()
    (tmp_path / "backup" / "group" / piece.name).write_bytes(b"")
    code, out, err = run("backup", "verify", str(tmp_path / "backup"))
    assert (code, piece.name in err, "no" in out) == (1, True, True)
