"""Tools on folders of nodes that run, or were killed as they wrote, and on read-only disks."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.commands import folders
from cluster.commands.inspect import node_findings
from commitlog.files.system import OS_FILES, OsFile, OsFileSystem
from commitlog.inspect import command
from commitlog.inspect.command import READS_OF_OPEN, main
from commitlog.store.reader import Finding, Item, StoreReader

from .test_damaged_folders import ALONE, OF_THREE, bytes_in, made, told

SLOTS = "--index-slots", 100, "--index-entries", 400
PROGRAM = """
import asyncio, sys
from dledger import Host, RaftConfig
from dledger.objects.counter import ReplicatedCounter
from dledger.objects.kv import KeyValueStore

SIZES = {"data_file_size": 1 << 16, "index_file_size": 32 * 1024, "entry_size_max": 1 << 14}

async def main():
    peers = {"n0": (sys.argv[2], 20911)}
    async with Host(RaftConfig("n0", peers, sys.argv[1], cluster_id="c", **SIZES)) as host:
        keys = await host.open_object("keys", KeyValueStore, create=True)
        orders = await host.open_object("orders", ReplicatedCounter, create=True)
        while True:
            await asyncio.gather(*(keys.put(f"k{n}", "x" * 500) for n in range(20)), orders.add(1))
            print("on", flush=True)

asyncio.run(main())
"""


def test_a_host_that_writes_and_one_that_was_killed_are_whole(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Its log is cut all the while, so that files go as they are read."""
    host = tmp_path / "host"
    for place in ("first", "second"):  # of what is cut by then, another backup in one has a gap
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(host), new_address()], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        with process, process.stdout as lines:
            for _ in range(9):
                assert lines.readline() == b"on\n"
            for _ in range(3):
                assert told("inspect", host)[0] == told("verify", host)[0] == 0
                rows = json.loads(told("status", host, "-o", "json")[1])
                assert {(row["up"], row["disk"]) for row in rows} == {(True, "good")}
            process.kill()
        before = bytes_in(host)
        assert told("inspect", host)[0] == told("verify", host)[0] == told("status", host)[0] == 0
        assert told("backup", "run", tmp_path / place, "--folder", host)[0] == 0
        assert bytes_in(host) == before


@pytest.mark.parametrize("times", [READS_OF_OPEN - 1, READS_OF_OPEN])
def test_a_file_that_goes_as_an_open_folder_is_read_is_no_damage(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is missed each time; of a folder that no process has open, once is enough."""
    folder = made(tmp_path / "n0", ALONE)
    calls: list[Path] = []

    class Going(OsFileSystem):
        def open(self, path: Path, *, writable: bool = True) -> OsFile:
            if path.parent.name == "data" and len(calls) < times:
                calls.append(path)
                raise FileNotFoundError(2, "it went", str(path))
            return super().open(path, writable=writable)

    def reader(path: Path) -> StoreReader:
        if len(calls) < times:
            calls.append(path)
            raise FileNotFoundError(2, "it went", str(path))
        return StoreReader(path)

    def inspected() -> int:
        calls.clear()
        return main([str(folder)], files=Going(), node_check=node_findings)

    def verified() -> Any:
        calls.clear()
        return told("verify", folder)[0]

    monkeypatch.setattr(folders, "StoreReader", reader)
    assert (verified(), inspected()) == (1, 2)
    lock = OS_FILES.lock(folder / "lock")
    assert (verified(), inspected()) == ((1, 2) if times == READS_OF_OPEN else (0, 0))
    lock.release()


@pytest.mark.parametrize("moves", [True, False])
def test_an_entry_that_is_being_written_is_no_damage(
    moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader meets zeros, and whole entries behind them, where the node goes on as it reads; each
    time at another place. What stays at its place is damage, also in an open folder.
    """
    folder = made(tmp_path / "n0", ALONE)
    log = max((folder / "data").iterdir())
    reads: list[int] = []

    class Torn(StoreReader):
        def items(self) -> Iterator[Item]:
            yield from super().items()
            reads.append(1)
            place = 100 + (len(reads) if moves else 0)
            self.findings.append(Finding(str(log), place, f"zeros, and an entry at {len(reads)}"))

    monkeypatch.setattr(folders, "StoreReader", Torn)
    monkeypatch.setattr(command, "StoreReader", Torn)
    assert (told("verify", folder)[0], told("inspect", folder)[0]) == (1, 1)
    lock = OS_FILES.lock(folder / "lock")
    rebuilt = ("inspect", folder, "--rebuild", tmp_path / "rebuilt", *SLOTS)
    for words in (
        ("verify", folder),
        ("inspect", folder),
        ("inspect", folder, "-o", "jsonl"),
        rebuilt,
    ):
        reads.clear()
        code, out, said = told(*words)
        assert (code, len(reads)) == ((0, 2) if moves else (1, READS_OF_OPEN))
        assert ("and an entry at" in out + said) is not moves
    lock.release()


@pytest.mark.parametrize("name", ["identity", "flushmark", "configurations"])
@pytest.mark.parametrize("tool", ["verify", "inspect", "status"])
def test_a_small_file_that_this_user_may_not_read_is_not_damaged(
    name: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "n0", OF_THREE)
    read, opened = OsFileSystem.read, OsFileSystem.open

    def refuse(path: Path) -> None:
        if path.name == name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def read_unless(files: OsFileSystem, path: Path) -> bytes:
        refuse(path)
        return read(files, path)

    def open_unless(files: OsFileSystem, path: Path, *, writable: bool = True) -> OsFile:
        refuse(path)
        return opened(files, path, writable=writable)

    monkeypatch.setattr(OsFileSystem, "read", read_unless)
    monkeypatch.setattr(OsFileSystem, "open", open_unless)
    code, out, said = told(tool, folder)
    assert code != 0
    assert "Permission denied" in said
    for word in "damaged", "DAMAGED", "put it back", "backup":
        assert word not in out + said


def test_a_log_that_this_user_may_not_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "n0", ALONE)

    def refuse(path: Path) -> StoreReader:
        raise PermissionError(errno.EACCES, "Permission denied", str(path / "data"))

    monkeypatch.setattr(folders, "StoreReader", refuse)
    code, out, said = told("verify", folder)
    assert (code, out, "Permission denied" in said) == (1, "", True)


def test_no_tool_wants_to_write_where_it_reads(tmp_path: Path) -> None:
    """A read-only disk, in a mount namespace of its own."""
    disk = tmp_path / "disk"
    made(disk / "host" / "orders", ALONE, group="orders")
    shutil.copytree(disk / "host" / "orders", disk / "lost")
    (disk / "lost" / "hardstate").unlink()
    dledger = Path(sys.executable).with_name("dledger")
    before = bytes_in(disk)

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        name = shlex.quote(str(disk))
        command = shlex.join(map(str, words))
        mounted = f"mount --bind {name} {name} && mount -o remount,bind,ro {name} && {command}"
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", mounted], capture_output=True, text=True, check=False
        )

    if shutil.which("unshare") is None or run("true").returncode:
        pytest.skip("not here: mount namespaces")
    for words, code in (
        (("inspect", disk / "host"), 0),
        (("verify", disk / "host"), 0),
        (("status", disk / "host"), 0),
        (("inspect", disk / "lost"), 1),
        (("verify", disk / "lost"), 1),
        (("status", disk / "lost"), 1),
        (("backup", "run", tmp_path / "place", "--folder", disk / "host"), 0),
        (("backup", "run", disk / "place", "--folder", disk / "host"), 1),
        (("export", disk / "host" / "orders", tmp_path / "out"), 1),
    ):
        done = run(dledger, *words)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert ("Read-only file system" in done.stderr) == (disk / "place" in words), done.stderr
    assert bytes_in(disk) == before


@pytest.mark.parametrize("name", [os.fsdecode(b"n\xff0"), "n \u65e5\u672c"])
def test_a_folder_has_any_name(name: str, tmp_path: Path) -> None:
    """Also one that is no UTF-8, or nothing that the terminal can show."""
    folder = made(tmp_path / "host" / name, OF_THREE)
    (folder / "hardstate").unlink()
    dledger = Path(sys.executable).with_name("dledger")
    for encoding in "utf-8", "ascii":
        for words in ("inspect",), ("verify",), ("status",), ("status", "-o", "json"):
            done = subprocess.run(
                [dledger, *words, tmp_path / "host"],
                env=os.environ | {"PYTHONIOENCODING": f"{encoding}:strict"},
                capture_output=True,
                check=False,
            )
            assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
    code, out, _ = told("status", tmp_path / "host", "-o", "json")
    assert (code, [row["folder"] for row in json.loads(out)]) == (1, [str(folder)])
    assert told("backup", "run", tmp_path / name, "--folder", folder)[0] == 0
    assert told("backup", "verify", tmp_path / name)[0] == 0


@pytest.mark.parametrize("kind", ["empty", "file", "missing"])
def test_what_is_no_folder_of_a_node_is_told_as_that(kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
    elif kind == "file":
        path.write_text("mine")
    before = bytes_in(tmp_path)
    for words, codes in (
        (("inspect", path), {2}),
        (("verify", path), {3}),
        (("status", path), {3}),
        (("backup", "run", tmp_path / "place", "--folder", path), {2, 3}),
        (("restore", path, "--into", tmp_path / "new"), {1, 3}),
    ):
        code, _, said = told(*words)
        assert (code in codes, str(path) in said) == (True, True), said
    assert bytes_in(tmp_path) == before
