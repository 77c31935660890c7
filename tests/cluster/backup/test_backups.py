"""Backups of a log in use, and nodes that are made of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.backup import node_log
from cluster.backup.backing_up import Added, back_up, read_manifest
from cluster.backup.checking import check
from cluster.backup.errors import BackupBusy, BackupDamaged, BackupError, BackupGap
from cluster.backup.manifest import NAME
from cluster.backup.node_log import NodeLog
from cluster.backup.places import FolderPlace, Place
from cluster.backup.restoring import Until, restore
from commitlog.files.system import OS_FILES as _FILES
from commitlog.records.message_fast import scan_record
from dledger.config import RaftConfig
from dledger.durable.configurations import ConfigurationFile
from dledger.runtime.opening import CODEC
from tests.cluster.backup.logs import FIRST_MS, Source, entries, nodes, opened, same
from tests.dledger.log.stores import DATA_FILE_SIZE

NOW_MS = 1_800_000_000_000
TO_THE_END = Until()


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few entries, over the borders of files."""
    monkeypatch.setattr(node_log, "PIECE_BYTES", 700)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    """A running node's log without an entry."""
    found = Source(tmp_path / "source" / "dledger-n0")
    yield found
    found.storage.close()


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    """An empty one."""
    return FolderPlace(tmp_path / "backup")


def save(source: Source, place: Place, committed: int | None = None) -> Added:
    """Back up what is committed."""
    log = NodeLog(source.folder)
    return back_up(log, source.log.last.index if committed is None else committed, place, lambda: 1)


def made_of(place: Place, root: Path, until: Until = TO_THE_END) -> list[RaftConfig]:
    """Nodes of the backup."""
    manifest, _ = read_manifest(place, "group")
    found = nodes(root)
    restore(place, manifest, found, until, NOW_MS)
    return found


def test_restored_nodes_have_the_same_entries_at_the_same_addresses(
    source: Source, place: FolderPlace, tmp_path: Path
) -> None:
    """Over terms and files; the new group is the last entry, alike on all."""
    source.add(7)
    source.add(5, term=4)
    added = save(source, place)
    assert (added.entries, added.manifest.mark, len(added.manifest.pieces) > 3) == (12, 11, True)
    storages = [opened(raft) for raft in made_of(place, tmp_path / "new")]
    for storage in storages:
        assert entries(storage.log, last=11) == entries(source.log)
        assert (storage.log.last.index, storage.log.commit_hint) == (12, 12)
        assert storage.hard_state.state.term == 4
    assert same([storage.log for storage in storages])
    first = made_of_members(tmp_path / "new" / "m0", storages[0].log)
    assert first == ("m0", "m1", "m2")
    for storage in storages:
        storage.close()


def made_of_members(folder: Path, log: object) -> tuple[str, ...]:
    """The voters of the newest configuration that a node finds at its start."""
    group = ConfigurationFile(
        _FILES,
        folder,
        log,
        CODEC,
        staging=folder / "staging",  # type: ignore[arg-type]
    )
    configuration = group.entries[-1].configuration
    assert configuration is not None
    return tuple(configuration.voters)


def test_second_run_copies_only_what_is_new(source: Source, place: FolderPlace) -> None:
    source.add(6)
    first = save(source, place)
    assert save(source, place).entries == 0
    source.add(4)
    second = save(source, place)
    assert (second.entries, second.manifest.mark) == (4, 9)
    assert second.manifest.pieces[: len(first.manifest.pieces)] == first.manifest.pieces
    assert check(place, second.manifest).faults == ()


def test_what_is_not_committed_is_left_out(source: Source, place: FolderPlace) -> None:
    """Its entries may be replaced by the next leader's."""
    source.add(9)
    assert save(source, place, committed=4).manifest.mark == 4
    assert save(source, place, committed=5).manifest.mark == 5


def test_entry_larger_than_a_piece_is_a_piece(source: Source, place: FolderPlace) -> None:
    source.add(2, size=800)
    assert [piece.first for piece in save(source, place).manifest.pieces] == [0, 1]


def test_log_without_its_beginning_is_restored_with_the_state_before_it(
    source: Source, place: FolderPlace, tmp_path: Path
) -> None:
    """R15: the restored log is anchored in what is gone, as that of a follower with the state."""
    source.add(30)
    source.trim(3 * DATA_FILE_SIZE, b"the state of deleted entries")
    save(source, place)
    storage = opened(made_of(place, tmp_path / "new")[0])
    start, state = NodeLog(tmp_path / "new" / "m0").beginning() or (None, b"")
    assert state == b"the state of deleted entries"
    assert start is not None
    assert start.anchor == source.log.anchor
    assert entries(storage.log, last=source.log.last.index) == entries(source.log)
    storage.close()


def test_backup_that_ends_where_the_log_now_begins_goes_on(
    source: Source, place: FolderPlace, tmp_path: Path
) -> None:
    """The blank behind its last entry went with that entry's file; no entry is missing."""
    source.add(30)
    last = source.log.index_at(4 * DATA_FILE_SIZE) - 1
    save(source, place, committed=last)
    source.trim(4 * DATA_FILE_SIZE, b"state")
    assert source.log.anchor.index == last
    save(source, place)
    storage = opened(made_of(place, tmp_path / "new")[2])
    assert entries(storage.log)[last + 1 : -1] == entries(source.log)
    storage.close()


def test_gap_between_the_backup_and_the_log_is_told(source: Source, place: FolderPlace) -> None:
    """Retention was quicker: the backup stays as it is, and another one has to be begun."""
    source.add(4)
    before = save(source, place).manifest
    source.add(30)
    source.trim(4 * DATA_FILE_SIZE, b"state")
    with pytest.raises(BackupGap, match="backup ends"):
        save(source, place)
    assert read_manifest(place, "group")[0] == before


@pytest.mark.parametrize("last", [0, 3, 4, 10, 11])
def test_restore_to_an_index_ends_there(
    source: Source, place: FolderPlace, tmp_path: Path, last: int
) -> None:
    source.add(12)
    save(source, place)
    storage = opened(made_of(place, tmp_path / "new", Until(index=last))[1])
    assert entries(storage.log, last=last) == entries(source.log, last=last)
    assert storage.log.last.index == last + 1, "the new members follow"
    storage.close()


@pytest.mark.parametrize("last", [-1, 12, 99])
def test_restore_to_an_index_that_is_not_there_is_refused(
    source: Source, place: FolderPlace, tmp_path: Path, last: int
) -> None:
    source.add(12)
    save(source, place)
    with pytest.raises(BackupError, match="has entries 0 to 11"):
        made_of(place, tmp_path / "new", Until(index=last))


@pytest.mark.parametrize(
    ("ms", "last"), [(-1, -1), (0, 0), (999, 0), (1000, 1), (6500, 6), (10**6, 11)]
)
def test_restore_to_a_time_is_exact(
    source: Source, place: FolderPlace, tmp_path: Path, ms: int, last: int
) -> None:
    """Message n was stored n seconds after the first one."""
    source.add(12)
    save(source, place)
    storage = opened(made_of(place, tmp_path / "new", Until(time_ms=FIRST_MS + ms))[0])
    found = entries(storage.log)[:-1]
    assert [row[0] for row in found] == list(range(last + 1))
    assert all(scan_record(row[4]).store_timestamp_ms <= FIRST_MS + ms for row in found)
    storage.close()


def test_every_flipped_bit_is_found(source: Source, place: FolderPlace, tmp_path: Path) -> None:
    """Of every file of a backup, at every 7th byte; and every file that is missing."""
    source.add(30)
    source.trim(3 * DATA_FILE_SIZE, b"the state of deleted entries")
    manifest = save(source, place).manifest
    files = [path for path in (tmp_path / "backup").rglob("*") if path.is_file()]
    parts = [path for path in files if path.name not in (NAME, "lock")]
    assert len(parts) == len(manifest.pieces) + 1
    for path in parts:
        data = path.read_bytes()
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
            assert check(place, manifest).faults, f"bit {at % 8} of byte {at} of {path}"
            if at > 100:
                break
        path.unlink()
        assert any("missing" in fault for fault in check(place, manifest).faults)
        path.write_bytes(data)
    assert check(place, manifest).faults == ()
    path = tmp_path / "backup" / "group" / NAME
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(BackupDamaged):
            read_manifest(place, "group")


def test_damaged_backup_is_not_restored(source: Source, place: FolderPlace, tmp_path: Path) -> None:
    source.add(12)
    piece = save(source, place).manifest.pieces[1]
    path = tmp_path / "backup" / "group" / piece.name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 4]))
    with pytest.raises(BackupDamaged, match=piece.name):
        made_of(place, tmp_path / "new")


class Killed(Exception):
    """The command ended here."""


class KillingPlace(FolderPlace):
    """Ends at the n-th change."""

    def __init__(self, root: Path, left: int) -> None:
        super().__init__(root)
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write(self, name: str, data: bytes) -> None:
        self._count()
        super().write(name, data)


def test_killed_at_any_change_goes_on_where_it_stopped(source: Source, tmp_path: Path) -> None:
    """What is named by the manifest is whole, and the next run has everything."""
    source.add(20)
    for left in itertools.count():
        root = tmp_path / f"backup-{left}"
        try:
            save(source, KillingPlace(root, left))
        except Killed:
            place = FolderPlace(root)
            assert save(source, place).manifest.mark == 19
            assert check(place, read_manifest(place, "group")[0]).faults == ()
        else:
            break
    assert left > 10


def test_another_cluster_is_refused(source: Source, place: FolderPlace, tmp_path: Path) -> None:
    source.add(3)
    save(source, place)
    other = nodes(tmp_path / "other", 1)
    manifest, _ = read_manifest(place, "group")
    restore(place, manifest, other, Until(), NOW_MS)
    with pytest.raises(BackupError, match="and this is restored"):
        back_up(NodeLog(Path(other[0].data_dir)), 3, place, lambda: 1)


def test_log_that_does_not_continue_the_backup_is_refused(
    source: Source, place: FolderPlace, tmp_path: Path
) -> None:
    """A cluster of the same name, made anew."""
    source.add(3)
    save(source, place)
    other = Source(tmp_path / "other" / "dledger-n0")
    other.add(3, size=140)
    other.add(3)
    with pytest.raises(BackupError, match="does not continue the backup"):
        save(other, place)
    other.storage.close()


def test_two_commands_do_not_mix(source: Source, place: FolderPlace) -> None:
    """The later one of two that read the same manifest changes nothing."""
    source.add(3)
    _, before = save(source, place), place.read(f"group/{NAME}")
    source.add(3)
    save(source, place)
    now = place.read(f"group/{NAME}")
    with pytest.raises(BackupBusy):
        place.replace(f"group/{NAME}", b"older", before)
    assert place.read(f"group/{NAME}") == now
