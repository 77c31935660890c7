"""Where the log begins is lost: a start finds it in the other file, or stops with a named error.

trimmed      first files went behind a state; the group had another member by then
installed    the log is empty behind a state that a leader sent
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from commitlog.files.system import OS_FILES
from commitlog.inspect.command import LOG_STARTS
from dledger import RaftConfig
from dledger.core.configuration import of_voters
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.durable.identity import Identity
from dledger.errors import LogDamaged
from dledger.log import log_start
from dledger.log.log_start import FILE_NAME, FILE_NAMES, SECOND_NAME, LogStart
from dledger.log.node_storage import NodeStorage, format_node, open_node
from dledger.membership.members import encode_configuration
from dledger.runtime.opening import open_folder
from dledger.snapshots.snapshot_files import SnapshotFolder
from tests.dledger.log.crash_files import CrashDisk
from tests.dledger.log.stores import DATA_FILE_SIZE, FOLDER, Clock, dump, fill, make, reopen, sync
from tests.dledger.log.stores import mark as move_mark
from tests.dledger.machine.test_saving import Lines

FILE_SIZE = 4096
ONE, THREE = ("n0",), ("n0", "n1", "n2")
NOW = ("n0", "n3", "n4")  # the members when the log's first files went
ELSEWHERE = 10 * FILE_SIZE  # of an installed state
Harm = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Made:
    """A stopped node's folder, the group that it was formatted with, and its log."""

    folder: Path
    voters: tuple[str, ...]
    first: Index
    last: EntryId


def _opened(folder: Path) -> NodeStorage:
    return open_node(folder, cluster_id="c", group="g", node_id="n0", clock=Clock())


def _trim(node: NodeStorage, states: SnapshotFolder, position: int) -> None:
    node.log.save_commit(node.log.last.index)
    group = encode_configuration(of_voters(tuple(map(NodeId, NOW)))).decode()
    start = node.log.start_at(position, group)
    states.save(start, b"[7, 70]")
    task = node.log.begin_trim(start)
    assert task is not None
    task.run()
    node.log.finish_trim(task)
    states.drop_before(position)


def _install(node: NodeStorage, states: SnapshotFolder) -> None:
    group = encode_configuration(of_voters(tuple(map(NodeId, NOW)))).decode()
    start = LogStart(Term(3), Index(99), 7, ELSEWHERE - 100, ELSEWHERE, group)
    states.save(start, b"[9, 90]")
    node.log.restart_at(start)
    states.drop_before(ELSEWHERE)


def _filled(folder: Path, voters: tuple[str, ...], slots: int) -> NodeStorage:
    names = tuple(map(NodeId, voters))
    identity = Identity("c", "g", NodeId("n0"), FILE_SIZE, slots * 32, voters=names)
    format_node(folder, identity, incarnation=1)
    node = _opened(folder)
    for _ in range(3):  # seven entries fill a file
        node.log.append([b"x" * 500] * 8, Term(1))
        sync(node.log)
        node.log.flush.mark_now()
        move_mark(node.log)
    return node


@pytest.fixture(params=[(v, k, s) for v in (ONE, THREE) for k in "ti" for s in (64, 2)], ids=str)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """With many slots in an index file, or few: then the first entry's slot goes with its file."""
    voters, kind, slots = request.param
    folder = tmp_path / "made" / "n0"
    node = _filled(folder, voters, slots)
    states = SnapshotFolder(OS_FILES, folder)
    _trim(node, states, FILE_SIZE) if kind == "t" else _install(node, states)
    first, last = node.log.first_index, node.log.last
    node.close()
    return Made(folder, voters, first, last)


def _start(folder: Path, voters: tuple[str, ...]) -> tuple[Index, EntryId, list[str]]:
    """First index, last entry and group of a node that starts on the folder."""
    peers = {name: ("127.0.0.1", 1 + number) for number, name in enumerate(voters)}
    config = RaftConfig("n0", peers, folder, cluster_id="c", group="g", entry_size_max=1024)
    sizes = replace(config, data_file_size=FILE_SIZE)
    parts = open_folder(sizes, Lines())  # type: ignore[arg-type]
    try:
        names = [str(member.node_id) for member in parts.initial.members]
        assert not parts.log.damage.ranges
        return parts.log.first_index, parts.log.last, names
    finally:
        parts.close(False)


def _spoil(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def _cut(path: Path) -> None:
    path.write_bytes(b"")


HARMS: tuple[Harm, ...] = (Path.unlink, _spoil, _cut)


@pytest.mark.parametrize("name", FILE_NAMES)
def test_one_file_is_lost_and_the_other_one_counts(made: Made, name: str, tmp_path: Path) -> None:
    """R20: beginning and group as before, twice, and both files are whole again."""
    for number, harm in enumerate(HARMS):
        folder = Path(shutil.copytree(made.folder, tmp_path / str(number) / "n0"))
        before = {file: (folder / file).read_bytes() for file in FILE_NAMES}
        harm(folder / name)
        for _ in range(2):
            assert _start(folder, made.voters) == (made.first, made.last, list(NOW))
            assert {file: (folder / file).read_bytes() for file in FILE_NAMES} == before


def test_both_files_are_lost_and_no_node_starts(made: Made, tmp_path: Path) -> None:
    """R20: neither with the group that it was formatted with, nor with its first files as damage.

    Nothing but the vote, written again as at each start, is touched: a file that is put back is
    enough.
    """
    for number, harm in enumerate(HARMS):
        folder = Path(shutil.copytree(made.folder, tmp_path / str(number) / "n0"))
        kept = (folder / SECOND_NAME).read_bytes()
        for name in FILE_NAMES:
            harm(folder / name)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for _ in range(2):
            with pytest.raises(LogDamaged, match=r"logstart.*rebuild this replica"):
                _start(folder, made.voters)
        changed = {p for p in folder.rglob("*") if p.is_file() and before.get(p) != p.read_bytes()}
        assert {path.name for path in changed} <= {"lock", "hardstate"}
        (folder / SECOND_NAME).write_bytes(kept)
        assert _start(folder, made.voters) == (made.first, made.last, list(NOW))


def test_the_newest_copy_counts(made: Made) -> None:
    """One copy, or one file, is that of an earlier beginning: which of them does not matter."""
    newest = (made.folder / FILE_NAME).read_bytes()
    older = LogStart(Term(1), Index(2), 5, 1700, 0, '{"members": []}')
    log_start.write(OS_FILES, made.folder, older, staging=made.folder / "staging")
    stale = (made.folder / FILE_NAME).read_bytes()
    one, two = newest[: len(newest) // 2], stale[: len(stale) // 2]
    for content, second in (
        *((newest, stale), (stale, newest), (one + one, two + two)),
        *((two + one.ljust(len(two)), newest), (newest, two + two[:-9])),
    ):
        (made.folder / FILE_NAME).write_bytes(content)
        (made.folder / SECOND_NAME).write_bytes(second)
        assert _start(made.folder, made.voters) == (made.first, made.last, list(NOW))
        assert (made.folder / SECOND_NAME).read_bytes() == newest, "the older one is written anew"


@pytest.mark.parametrize("voters", [ONE, THREE], ids=str)
def test_both_files_are_older_and_no_node_starts(voters: tuple[str, ...], tmp_path: Path) -> None:
    """R20: the group may have changed between the two beginnings, in entries that are gone."""
    folder = tmp_path / "n0"
    node = _filled(folder, voters, 64)
    states = SnapshotFolder(OS_FILES, folder)
    _trim(node, states, FILE_SIZE)
    older = (folder / FILE_NAME).read_bytes()
    _trim(node, states, 2 * FILE_SIZE)
    node.close()
    for content in older, None:
        for name in FILE_NAMES:
            (folder / name).unlink()
            if content is not None:
                (folder / name).write_bytes(content)
        with pytest.raises(LogDamaged, match=r"first file is that of 8192, not of (4096|0)"):
            _start(folder, voters)
        log_start.write(OS_FILES, folder, LogStart(Term(1), Index(9), 0, 0, 0), staging=folder)


def test_a_state_is_installed_behind_an_older_beginning(tmp_path: Path) -> None:
    """Both files are those of before: an empty log says in its mark behind which entry it is."""
    folder = tmp_path / "n0"
    node = _filled(folder, THREE, 64)
    states = SnapshotFolder(OS_FILES, folder)
    _trim(node, states, FILE_SIZE)
    older = (folder / FILE_NAME).read_bytes()
    _install(node, states)
    node.close()
    for name in FILE_NAMES:
        (folder / name).write_bytes(older)
    with pytest.raises(LogDamaged, match="it was empty behind entry 99"):
        _start(folder, THREE)


def test_a_first_file_that_was_deleted_by_hand_is_damage_as_before(tmp_path: Path) -> None:
    """Where both files say the same, or no state ever was, peers have what is missing."""
    for trimmed in False, True:
        folder = tmp_path / str(trimmed) / "n0"
        node = _filled(folder, THREE, 64)
        if trimmed:
            _trim(node, SnapshotFolder(OS_FILES, folder), FILE_SIZE)
        first = node.log.first_index
        node.close()
        (folder / "data" / f"{FILE_SIZE if trimmed else 0:020}").unlink()
        again = open_node(
            folder,
            cluster_id="c",
            group="g",
            node_id="n0",
            clock=Clock(),
            repairable=True,
            refilled=True,
        )
        assert (again.log.first_index, bool(again.log.damage.ranges)) == (first, True)
        again.close()


def test_what_a_former_release_wrote_gets_its_second_file(made: Made) -> None:
    (made.folder / SECOND_NAME).unlink()
    assert _start(made.folder, made.voters) == (made.first, made.last, list(NOW))
    assert (made.folder / SECOND_NAME).read_bytes() == (made.folder / FILE_NAME).read_bytes()


def test_a_full_disk_keeps_the_second_file_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log loses its first files all the same, as that makes space; a start writes the file."""
    disk = CrashDisk()
    log = make(disk).log
    fill(log, 40, size=200)
    sync(log)
    for _ in range(2):
        log.flush.mark_now()
        move_mark(log)
    write = CrashDisk.write_atomic

    def full(self: CrashDisk, path: Path, content: object, **options: object) -> None:
        if path.name == SECOND_NAME:
            raise OSError(errno.ENOSPC, "no space", str(path))
        write(self, path, content, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(CrashDisk, "write_atomic", full)
    task = log.begin_trim(log.start_at(4 * DATA_FILE_SIZE, "{}"))
    assert task is not None
    task.run()
    assert log.finish_trim(task) is not None
    wanted = dump(log)
    log.close()
    again = reopen(disk).log
    assert (dump(again), disk.exists(FOLDER / SECOND_NAME)) == (wanted, False)
    again.close()
    monkeypatch.undo()
    reopen(disk)
    assert disk.read(FOLDER / SECOND_NAME) == disk.read(FOLDER / FILE_NAME)


def test_a_full_disk_leaves_no_order_to_empty_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is emptied and goes on; the first file is lost later, and the second one is older.

    If that told to empty the log, the entries that came since would go.
    """
    disk = CrashDisk()
    log = make(disk).log
    write = CrashDisk.write_atomic
    writes: list[str] = []

    def full(self: CrashDisk, path: Path, content: object, **options: object) -> None:
        writes.append(path.name)
        if path.name == SECOND_NAME and writes.count(FILE_NAME) > 1:
            raise OSError(errno.ENOSPC, "no space", str(path))
        write(self, path, content, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(CrashDisk, "write_atomic", full)
    log.restart_at(LogStart(Term(3), Index(99), 7, 10 * DATA_FILE_SIZE, 10 * DATA_FILE_SIZE, "{}"))
    log.append([b"acknowledged"], Term(3))
    sync(log)
    log.close()
    monkeypatch.undo()
    disk.remove(FOLDER / FILE_NAME)
    before = disk.read(FOLDER / "data" / f"{10 * DATA_FILE_SIZE:020}")
    with pytest.raises(LogDamaged):
        reopen(disk)
    assert disk.read(FOLDER / "data" / f"{10 * DATA_FILE_SIZE:020}") == before


def test_an_empty_log_without_a_mark_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    """R2, R20: a node that lost its mark, too, would begin with entry 0 again, of its old group."""
    folder = tmp_path / "n0"
    node = _filled(folder, THREE, 64)
    _install(node, SnapshotFolder(OS_FILES, folder))
    node.close()
    for name in (*FILE_NAMES, "flushmark"):
        (folder / name).unlink()
    with pytest.raises(LogDamaged, match="logstart"):
        _start(folder, THREE)


def test_the_tool_below_knows_both_files() -> None:
    """`commitlog` imports no log of Raft, so it has their names once more."""
    assert LOG_STARTS == FILE_NAMES
