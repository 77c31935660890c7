"""Folders of a restore that fails or is killed: none is left, or none that a node starts on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cluster.backup import node_log, restoring
from cluster.backup.backing_up import back_up, read_manifest
from cluster.backup.errors import BackupDamaged, BackupError
from cluster.backup.manifest import Manifest
from cluster.backup.node_log import NodeLog
from cluster.backup.places import FolderPlace
from cluster.backup.restoring import Until, restore
from cluster.move.errors import FolderBusy, FolderLeft
from cluster.move.new_folders import STAGING, all_or_nothing, clear, is_new
from commitlog.errors import StoreLayoutError
from commitlog.files.system import OS_FILES, OsFileSystem
from dledger.config import RaftConfig
from tests.dledger.log.stores import DATA_FILE_SIZE

from .logs import Source, nodes, opened

NOW_MS = 1_800_000_000_000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderPlace:
    """A backup in several pieces, of a log that was cut."""
    monkeypatch.setattr(node_log, "PIECE_BYTES", 700)
    source = Source(tmp_path / "source" / "dledger-n0")
    source.add(30)
    source.trim(3 * DATA_FILE_SIZE, b"the state of deleted entries")
    found = FolderPlace(tmp_path / "backup")
    back_up(NodeLog(source.folder), source.log.last.index, found, lambda: 1)
    source.storage.close()
    return found


def manifest_of(place: FolderPlace) -> Manifest:
    return read_manifest(place, "group")[0]


def paths_in(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


class Quick(OsFileSystem):
    """Waits for no folder to be on disk: what is looked at is what a process leaves."""

    def sync_dir(self, path: Path) -> None:
        pass


class Dying(Quick):
    """Raises at its so-and-so-many-th call of one kind; `made` counts those."""

    def __init__(self, kind: str, number: int, error: BaseException) -> None:
        super().__init__()
        self.kind, self.number, self.error, self.made = kind, number, error, 0

    def _count(self, kind: str) -> None:
        self.made += kind == self.kind
        if kind == self.kind and self.made == self.number:
            raise self.error

    def create(self, *args: Any, **more: Any) -> Any:
        self._count("create")
        return super().create(*args, **more)

    def write_atomic(self, *args: Any, **more: Any) -> None:
        self._count("write")
        super().write_atomic(*args, **more)

    def rename(self, source: Path, target: Path) -> None:
        self._count("rename")
        super().rename(source, target)


def damage_last(place: FolderPlace, root: Path) -> None:
    path = root / "group" / manifest_of(place).pieces[-1].name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 4]))


def lose_state(_: FolderPlace, root: Path) -> None:
    for path in (root / "group" / "state").iterdir():
        path.unlink()


@pytest.mark.parametrize("harm", [damage_last, lose_state])
def test_a_backup_that_turns_out_damaged_leaves_no_folder(
    harm: Callable[[FolderPlace, Path], None], place: FolderPlace, tmp_path: Path
) -> None:
    harm(place, tmp_path / "backup")
    before = paths_in(tmp_path)
    with pytest.raises(BackupDamaged):
        restore(place, manifest_of(place), nodes(tmp_path / "new"), Until(), NOW_MS)
    assert paths_in(tmp_path) == before


@pytest.mark.parametrize("index", [-1, 0, 9999])
def test_an_index_that_is_not_there_is_told_before_anything_is_made(
    index: int, place: FolderPlace, tmp_path: Path
) -> None:
    files = Dying("create", 1, AssertionError("something was made"))
    with pytest.raises(BackupError, match="name one of them"):
        restore(
            place, manifest_of(place), nodes(tmp_path / "new"), Until(index), NOW_MS, files=files
        )
    assert not (tmp_path / "new").exists()


#: Parts of two nodes that move up at the end of a restore; the last two are `identity`.
RENAMED = 28
CHANGES = [
    *(("create", number) for number in (1, 9)),
    ("write", 4),
    *(("rename", number) for number in (1, 9, RENAMED - 1, RENAMED)),
]


@pytest.mark.parametrize(("kind", "number"), CHANGES)
def test_an_error_or_ctrl_c_at_any_change_leaves_no_folder(
    kind: str, number: int, place: FolderPlace, tmp_path: Path
) -> None:
    manifest, root = manifest_of(place), tmp_path / "new"
    (root / "kept").mkdir(parents=True)
    for error in KeyboardInterrupt(), OSError(errno.ENOSPC, "no space"):
        files = Dying(kind, number, error)
        with pytest.raises(type(error)):
            restore(place, manifest, nodes(root, 2), Until(), NOW_MS, files=files)
        assert paths_in(root) == ["kept"]


def are_whole(made: list[RaftConfig], entries: int) -> bool:
    for raft in made:
        storage = opened(raft)
        assert storage.log.last.index == entries
        storage.close()
    return True


@pytest.mark.parametrize(("kind", "number"), CHANGES)
def test_one_that_is_killed_at_any_change_leaves_no_node_and_the_next_begins_anew(
    kind: str, number: int, place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only between the last renames, of `identity`, is a node whole and another one not."""
    manifest, made = manifest_of(place), nodes(root := tmp_path / "new", 2)
    with monkeypatch.context() as patch:
        patch.setattr(restoring, "all_or_nothing", lambda _: nullcontext())
        files = Dying(kind, number, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            restore(place, manifest, made, Until(), NOW_MS, files=files)
    whole = [raft for raft in made if (Path(raft.data_dir) / "identity").exists()]
    assert len(whole) == (number == RENAMED)
    if whole:
        assert are_whole(whole, manifest.mark + 1)
        with pytest.raises(StoreLayoutError, match="formatted already"):
            restore(place, manifest, made, Until(), NOW_MS)
        return
    assert is_new(root)
    restore(place, manifest, made, Until(), NOW_MS, files=Quick())
    assert are_whole(made, manifest.mark + 1)
    assert not list(root.rglob(STAGING))


def test_a_restore_that_is_at_work_is_left_alone(tmp_path: Path) -> None:
    staging = tmp_path / "new" / STAGING
    staging.mkdir(parents=True)
    lock = OS_FILES.lock(staging / "lock")
    with pytest.raises(FolderBusy, match="another restore or import is at work"):
        clear(tmp_path / "new", OS_FILES)
    assert staging.exists()
    lock.release()
    clear(tmp_path / "new", OS_FILES)
    assert list((tmp_path / "new").iterdir()) == []


def test_files_of_others_are_not_taken_for_what_a_restore_left(tmp_path: Path) -> None:
    new = tmp_path / "new"
    (new / STAGING).mkdir(parents=True)
    (new / "letters.txt").write_text("mine")
    assert not is_new(new)
    clear(new, OS_FILES)
    assert paths_in(new) == [STAGING, "letters.txt"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "letters.txt").write_text("mine")
    (new / "letters.txt").unlink()
    (new / STAGING).rmdir()
    (new / STAGING).symlink_to(elsewhere)
    clear(new, OS_FILES)
    assert (elsewhere / "letters.txt").exists()


def test_what_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EACCES, "no", str(path))

    def fail() -> None:
        with all_or_nothing([tmp_path / "new"]):
            (tmp_path / "new" / "data").mkdir(parents=True)
            raise OSError("the disk ended")

    monkeypatch.setattr("cluster.move.new_folders._remove", refuse)
    with pytest.raises(FolderLeft, match=r"the disk ended; it left .*/new/data behind"):
        fail()
