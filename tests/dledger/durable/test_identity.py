"""Formatting is explicit and happens once; a folder knows whose it is (R6)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from commitlog.errors import StoreConfigError, StoreLayoutError, StoreLocked
from commitlog.files.system import OS_FILES
from dledger.core.types import NO_ENTRY, HardState, Index, NodeId, Term
from dledger.durable import identity as identities
from dledger.durable.identity import Identity
from dledger.errors import LaterVersion, LogDamaged, NotFormatted, WrongIdentity
from dledger.log.node_storage import format_node, open_node
from tests.dledger.log.crash_files import CrashDisk, PowerCut
from tests.dledger.log.stores import FOLDER, IDENTITY, Clock, fill, make, reopen


def test_a_folder_that_nobody_formatted_is_refused() -> None:
    with pytest.raises(NotFormatted, match="never formatted"):
        reopen(CrashDisk())


def test_an_emptied_folder_is_not_formatted_again_by_itself() -> None:
    """R6: two emptied folders must not elect an empty log."""
    disk = CrashDisk()
    make(disk)
    for path in list(disk.names):
        del disk.names[path]
    with pytest.raises(NotFormatted):
        reopen(disk)


def test_a_new_node_has_an_empty_log_and_term_zero() -> None:
    disk = CrashDisk()
    node = make(disk)
    assert node.hard_state.state == HardState(Term(0), None, 7)
    assert (node.log.last, node.log.flushed) == (NO_ENTRY, -1)
    assert node.identity == IDENTITY


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"cluster_id": "other"}, "cluster 'cluster'"),
        ({"group": "other"}, "group 'group'"),
        ({"node_id": "n1"}, "node 'n0'"),
    ],
)
def test_the_folder_of_somebody_else_is_refused(wrong: dict[str, str], match: str) -> None:
    disk = CrashDisk()
    make(disk)
    disk.restart()
    names = {"cluster_id": "cluster", "group": "group", "node_id": "n0", **wrong}
    with pytest.raises(WrongIdentity, match=match):
        open_node(FOLDER, files=disk, clock=Clock(), **names)


def test_formatting_twice_is_refused() -> None:
    disk = CrashDisk()
    fill(make(disk).log, 3)
    with pytest.raises(StoreLayoutError, match="formatted already"):
        format_node(FOLDER, IDENTITY, incarnation=8, files=disk)
    assert reopen(disk).log.last.index == 2


def test_formatting_over_files_of_a_log_is_refused() -> None:
    disk = CrashDisk()
    make(disk)
    del disk.names[FOLDER / "identity"]
    with pytest.raises(StoreLayoutError, match="holds files"):
        format_node(FOLDER, IDENTITY, incarnation=8, files=disk)


def test_a_power_cut_while_formatting_leaves_nothing_that_starts() -> None:
    """The identity is written last; formatting can be tried again."""
    for fuse in range(40):
        disk = CrashDisk()
        disk.fuse = fuse
        try:
            format_node(FOLDER, IDENTITY, incarnation=7, files=disk)
        except PowerCut:
            disk.crash(keep=0.5)
            with pytest.raises(NotFormatted):
                reopen(disk)
            format_node(FOLDER, IDENTITY, incarnation=9, files=disk)
            assert reopen(disk).hard_state.state.incarnation == 9
        else:
            assert fuse > 10
            return
    raise AssertionError("formatting takes too many operations")


def test_a_flipped_byte_of_the_identity_is_damage() -> None:
    disk = CrashDisk()
    make(disk)
    path = FOLDER / "identity"
    for offset in range(len(disk.read(path))):
        disk.flip(path, offset)
        with pytest.raises(LogDamaged, match="is not to be read"):
            reopen(disk)
        disk.flip(path, offset)
    reopen(disk)


def test_an_identity_of_a_later_version_is_refused() -> None:
    data = identities.encode(IDENTITY).replace(b'"version": 1', b'"version": 2')
    line = data.split(b"\n")[0]
    with pytest.raises(LaterVersion, match="version 2"):
        identities.decode(line + b"\ncrc32 %08x\n" % crc32(line))
    assert identities.decode(identities.encode(IDENTITY)) == IDENTITY


@pytest.mark.parametrize(
    "changed",
    [{"data_file_size": 40}, {"index_file_size": 250}, {"first_position": 100}],
)
def test_impossible_sizes_are_refused_before_anything_is_made(changed: dict[str, int]) -> None:
    disk = CrashDisk()
    with pytest.raises(StoreConfigError):
        format_node(FOLDER, replace(IDENTITY, **changed), incarnation=7, files=disk)
    assert not disk.names


def test_a_log_may_begin_behind_a_plain_commit_log() -> None:
    """docs/spec/raft_log.md 2: names and positions start at the boundary."""
    disk = CrashDisk()
    node = make(disk, identity=replace(IDENTITY, first_position=3072))
    assert list(node.log.append([bytes(100)], Term(1))) == [3072]
    assert disk.list(FOLDER / "data") == [f"{3072:020}"]
    assert node.log.index_at(3072) == 0
    again = reopen(disk)
    assert (again.log.end_position, again.log.first_position) == (3220, 3072)
    again.log.truncate_after(Index(-1))
    assert again.log.end_position == 3072


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    """One process holds the folder; another one is told so."""
    folder = tmp_path / "dledger-n0"
    node = make(OS_FILES, folder)
    script = (
        "import sys, time; from pathlib import Path\n"
        "from dledger.log.node_storage import open_node\n"
        "open_node(Path(sys.argv[1]), cluster_id='cluster', group='group', node_id='n0',\n"
        "          clock=time.monotonic)\n"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", script, str(folder)]
    held = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert held.returncode != 0
    assert StoreLocked.__name__ in held.stderr
    node.close()
    free = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert free.returncode == 0, free.stderr


def test_nothing_stays_open_when_opening_fails(tmp_path: Path) -> None:
    folder = tmp_path / "dledger-n0"
    identity = Identity("cluster", "group", NodeId("n0"), 4096, 320)
    node = make(OS_FILES, folder, identity)
    fill(node.log, 5)
    node.close()
    with (folder / "data" / f"{0:020}").open("r+b") as file:
        file.seek(4 * 148 + 60)
        file.write(b"?")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(LogDamaged):
            reopen(OS_FILES, folder)
    assert len(os.listdir("/proc/self/fd")) == before
