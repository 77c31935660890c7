"""States on disk: read once to be proven, received part by part, never joined without need."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from commitlog.errors import StoreDamaged
from commitlog.files.content import Content
from commitlog.files.system import OS_FILES, OsFile, OsFileSystem
from dledger.core.configuration import Configuration
from dledger.core.effects import SendSnapshot
from dledger.core.types import EntryId, Index, NodeId, Term
from dledger.log.log_start import LogStart
from dledger.snapshots.prefix import Prefix
from dledger.snapshots.snapshot import Part, snapshot_of
from dledger.snapshots.snapshot_files import SnapshotFolder

START = LogStart(Term(3), Index(41), 7, 4096, 4096, "")
PARTS = [bytes([number]) * 1000 for number in range(64)]
STATE = b"".join(PARTS)


class Reads:
    """Counts the bytes that are read from files."""

    def __init__(self) -> None:
        self.read_bytes = 0


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found, pread = Reads(), OsFile.pread

    def counted(self: OsFile, size: int, position: int) -> bytes:
        data = pread(self, size, position)
        found.read_bytes += len(data)
        return data

    monkeypatch.setattr(OsFile, "pread", counted)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    (tmp_path / "staging").mkdir()
    return SnapshotFolder(OS_FILES, tmp_path)


def state_file(tmp_path: Path) -> Path:
    return tmp_path / "snapshots" / f"{START.position:020}"


def test_parts_make_the_same_file_as_the_whole(folder: SnapshotFolder, tmp_path: Path) -> None:
    folder.save(START, STATE)
    whole = state_file(tmp_path).read_bytes()
    folder.save(START, PARTS)
    assert state_file(tmp_path).read_bytes() == whole
    assert folder.load(START) == STATE


def test_a_proven_state_is_not_read_again(folder: SnapshotFolder, files: Reads) -> None:
    folder.save(START, PARTS)
    folder.prove(START)
    assert files.read_bytes > len(STATE), "the first time all of it is read"
    files.read_bytes = 0
    for _ in range(10):
        folder.prove(START)
        assert folder.part(START, 5000, 100) == Part(
            snapshot_of(START, PARTS), 5000, STATE[5000:5100]
        )
    assert files.read_bytes < 3000


@pytest.mark.parametrize("doubted", ["saved anew", "in another process", "doubted"])
def test_what_was_proven_once_is_read_again_when_it_may_have_changed(
    folder: SnapshotFolder, tmp_path: Path, doubted: str
) -> None:
    folder.save(START, STATE)
    folder.prove(START)
    match doubted:
        case "saved anew":
            folder.save(START, STATE)
        case "in another process":
            folder = SnapshotFolder(OS_FILES, tmp_path)
        case _:
            folder.doubt(START.position)
    path = state_file(tmp_path)
    rotten = bytearray(path.read_bytes())
    rotten[30_000] ^= 1
    path.write_bytes(rotten)
    with pytest.raises(StoreDamaged):
        folder.prove(START)
    with pytest.raises(StoreDamaged):
        folder.load(START)


@pytest.mark.parametrize("harm", ["missing", "short", "another"])
def test_a_file_that_is_not_the_proven_one_is_found_by_its_head(
    folder: SnapshotFolder, tmp_path: Path, harm: str
) -> None:
    folder.save(START, STATE)
    folder.prove(START)
    path = state_file(tmp_path)
    match harm:
        case "missing":
            path.unlink()
        case "short":
            path.write_bytes(path.read_bytes()[:-1])
        case _:
            there = path.read_bytes()
            folder.save(replace(START, term=Term(4)), STATE)
            assert path.read_bytes() != there
    with pytest.raises(StoreDamaged):
        folder.part(START, 0, 100)


def test_parts_that_came_are_not_read_for_each_next_one(
    folder: SnapshotFolder, files: Reads, tmp_path: Path
) -> None:
    wanted = snapshot_of(START, PARTS)
    for number, data in enumerate(PARTS):
        if number == 40:  # the receiver was killed
            folder = SnapshotFolder(OS_FILES, tmp_path)
        found = folder.receive(START.position, Part(wanted, number * 1000, data))
        assert found == ((number + 1) * 1000, number == 63)
    assert files.read_bytes < 4 * len(STATE)
    assert folder.load(START) == STATE
    assert folder.receive(START.position, Part(wanted, 0, PARTS[0])) == (len(STATE), True)


def test_parts_of_another_state_do_not_count(folder: SnapshotFolder) -> None:
    wanted = snapshot_of(START, PARTS)
    other = wanted._replace(crc=wanted.crc ^ 1)
    for number in range(3):
        folder.receive(START.position, Part(other, number * 1000, PARTS[number]))
    assert folder.receive(START.position, Part(wanted, 3000, PARTS[3])) == (0, False)
    for number, data in enumerate(PARTS):
        found = folder.receive(START.position, Part(wanted, number * 1000, data))
    assert found == (len(STATE), True)


def test_a_state_that_a_peer_asks_for_anew_is_read_before_it_is_sent_again(
    folder: SnapshotFolder, tmp_path: Path
) -> None:
    """It was sent whole: either it is lost there, or it was not right, here perhaps."""
    log: Any = SimpleNamespace(start=START)
    prefix = Prefix(log, folder, lambda *_: None)
    folder.save(START, STATE)

    def asked(offset: int) -> bytes:
        configuration = Configuration()
        effect = SendSnapshot(
            NodeId("n2"), Term(5), EntryId(Term(3), Index(41)), configuration, offset, 40_000, 0
        )
        message = prefix.chunk(effect, NodeId("n1"))
        assert message is not None
        return bytes(message.data or b"")

    assert asked(0) + asked(40_000) == STATE
    path = state_file(tmp_path)
    rotten = bytearray(path.read_bytes())
    rotten[60_000] ^= 1
    path.write_bytes(rotten)
    with pytest.raises(StoreDamaged):
        asked(0)


def send(folder: SnapshotFolder, parts: list[bytes], begin: int = 0) -> tuple[int, bool]:
    """The parts of a state from number `begin` on, as a leader sends them."""
    found, wanted = (0, False), snapshot_of(START, parts)
    for number in range(begin, len(parts)):
        found = folder.receive(START.position, Part(wanted, number * 1000, parts[number]))
    return found


@pytest.mark.parametrize("harm", ["rotten", "gone", "deleted with the log"])
def test_a_part_that_was_harmed_since_it_came_makes_no_state(
    folder: SnapshotFolder, tmp_path: Path, harm: str
) -> None:
    """A state without it would be taken for whole, and end the node at each of its starts."""
    wanted = snapshot_of(START, PARTS)
    for number in range(40):
        folder.receive(START.position, Part(wanted, number * 1000, PARTS[number]))
    part = tmp_path / "snapshots" / f"{START.position:020}.{7000:020}"
    match harm:
        case "rotten":
            rotten = bytearray(part.read_bytes())
            rotten[500] ^= 1
            part.write_bytes(rotten)
        case "gone":
            part.unlink()
        case _:
            folder.drop_before(START.position + 1)
    assert send(folder, PARTS, 40) == (0, False)
    assert not folder.positions()
    assert send(folder, PARTS) == (len(STATE), True)
    assert folder.load(START) == STATE


class Full(OsFileSystem):
    """A disk that is full while `is_full`."""

    is_full = False

    def write_atomic(self, path: Path, data: Content, *, staging: Path | None = None) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left", str(path))
        super().write_atomic(path, data, staging=staging)


def test_a_full_disk_leaves_no_memory_of_parts_that_are_gone(
    folder: SnapshotFolder, tmp_path: Path
) -> None:
    """The leader changed to another state and back; the first part of the other had no space."""
    files = Full()
    folder = SnapshotFolder(files, tmp_path)
    others = [bytes([number]) * 1000 for number in range(100, 164)]
    wanted, other = snapshot_of(START, PARTS), snapshot_of(START, others)
    for number in range(40):
        folder.receive(START.position, Part(wanted, number * 1000, PARTS[number]))
    files.is_full = True
    with pytest.raises(OSError, match="no space"):
        folder.receive(START.position, Part(other, 0, others[0]))
    files.is_full = False
    assert folder.receive(START.position, Part(wanted, 0, b"")) == (0, False)
    assert send(folder, PARTS) == (len(STATE), True)
    assert folder.load(START) == STATE


@pytest.mark.parametrize("offset", [len(STATE) + 1, 1 << 40, -1])
def test_a_place_that_the_state_has_not_is_answered_from_its_beginning(
    folder: SnapshotFolder, offset: int
) -> None:
    """A part of the last leader's state, of another size, may be counted to the next leader."""
    folder.save(START, STATE)
    assert folder.part(START, offset, 100) == Part(snapshot_of(START, PARTS), 0, STATE[:100])
    assert folder.part(START, len(STATE), 100).data == b""


def test_a_state_is_proven_while_others_are_forgotten(folder: SnapshotFolder) -> None:
    """A thread saves and proves; another deletes the log's files, or the log's thread does."""
    later = replace(START, position=8192)

    class Place(int):
        """A switch of threads comes when it is compared."""

        def __lt__(self, other: int) -> bool:
            folder.prove(later)
            folder.doubt(self)
            return True

    place = Place(START.position)
    for start in (START, later):
        folder.save(start, STATE)
    folder.prove(replace(START, position=place))
    folder.drop_before(later.position)
    assert folder.positions() == [later.position]


def test_an_offer_alone_is_no_doubt(folder: SnapshotFolder, files: Reads) -> None:
    """Its peer may be joining the parts: a leader offers again each time no answer comes."""
    log: Any = SimpleNamespace(start=START)
    prefix = Prefix(log, folder, lambda *_: None)
    folder.save(START, STATE)
    for size in (len(STATE), 0):
        files.read_bytes = 0
        anchor = EntryId(Term(3), Index(41))
        effect = SendSnapshot(NodeId("n2"), Term(5), anchor, Configuration(), 0, size, 0)
        assert prefix.chunk(effect, NodeId("n1"))
    assert files.read_bytes < 1000
