"""The places of configurations: noted before they are written, found again, scanned when lost."""

from __future__ import annotations

import errno
from pathlib import Path
from zlib import crc32

import pytest

from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES, Buffer
from dledger.core.configuration import Configuration, ConfigurationEntry, of_voters
from dledger.core.types import Index, NodeId, Term
from dledger.durable.configurations import FILE_NAME, Codec, ConfigurationFile, create
from dledger.log.port import Entry
from dledger.membership.members import decode_configuration, encode_configuration
from dledger.testing.memory import MemoryLog

TERM = Term(1)


def decode(body: Buffer) -> Configuration | None:
    text = bytes(body)
    if not text.startswith(b"group "):
        return None
    return of_voters(tuple(NodeId(name) for name in text.decode().split()[1:]))


CODEC = Codec(decode, encode_configuration, decode_configuration)


def opened(folder: Path, log: MemoryLog) -> ConfigurationFile:
    return ConfigurationFile(OS_FILES, folder, log, CODEC, staging=folder)


def entry_of(index: int, *names: str) -> ConfigurationEntry:
    return ConfigurationEntry(Index(index), of_voters(tuple(map(NodeId, names))))


def places(folder: Path, log: MemoryLog) -> list[int]:
    return [int(entry.index) for entry in opened(folder, log).entries]


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog(file_size=4096)
    made.append([b"one", b"two"], TERM)
    return made


def test_what_was_noted_is_found_again(tmp_path: Path, log: MemoryLog) -> None:
    create(OS_FILES, tmp_path, staging=tmp_path)
    file = opened(tmp_path, log)
    assert file.entries == []
    file.note(entry_of(2, "n0", "n1"), TERM)
    log.append([b"group n0 n1"], TERM)
    log.append([b"three"], TERM)
    (entry,) = opened(tmp_path, log).entries
    assert entry.index == 2
    assert entry.configuration == of_voters((NodeId("n0"), NodeId("n1")))


def test_a_place_whose_entry_was_never_written_or_was_truncated_is_none(
    tmp_path: Path, log: MemoryLog
) -> None:
    create(OS_FILES, tmp_path, staging=tmp_path)
    opened(tmp_path, log).note(entry_of(2, "n0"), TERM)
    assert places(tmp_path, log) == [], "the process died before the write"
    log.append([b"something else"], TERM)
    assert places(tmp_path, log) == [], "another leader's entry stands there"


def test_a_truncated_place_is_forgotten_with_the_next(tmp_path: Path, log: MemoryLog) -> None:
    create(OS_FILES, tmp_path, staging=tmp_path)
    file = opened(tmp_path, log)
    file.note(entry_of(2, "n0"), TERM)
    log.append([b"group n0"], TERM)
    log.append([b"group n1"], TERM)  # not noted: only what is noted is looked at
    log.truncate_after(Index(1))
    file.note(entry_of(2, "n2"), TERM)
    log.append([b"group n2"], TERM)
    (entry,) = opened(tmp_path, log).entries
    assert entry.configuration == of_voters((NodeId("n2"),))


@pytest.mark.parametrize("content", [None, b"", b"{}\ncrc32 00000000\n", b"\xff"])
def test_without_the_file_the_log_is_read(
    tmp_path: Path, log: MemoryLog, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    log.append([b"group n0 n1", b"three", b"group n1"], TERM)
    assert places(tmp_path, log) == [2, 4]
    assert places(tmp_path, log) == [2, 4], "written down meanwhile"


class RottenLog(MemoryLog):
    """One entry of it cannot be read."""

    rotten = -1

    def entry(self, index: Index) -> Entry:
        if index == self.rotten:
            raise StoreDamaged("its body is not what was written")
        return super().entry(index)


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "found"])
def test_a_damaged_entry_is_told_by_its_copy(tmp_path: Path, noted: bool) -> None:
    """Also one that an earlier version had noted by its place only: it was copied when read."""
    log = RottenLog(file_size=4096)
    log.append([b"one"], TERM)
    if noted:
        create(OS_FILES, tmp_path, staging=tmp_path)
        opened(tmp_path, log).note(entry_of(1, "n0", "n1"), TERM)
        log.append([b"group n0 n1"], TERM)
    else:
        log.append([b"group n0 n1"], TERM)
        line = b'{"indexes": [1]}'
        (tmp_path / FILE_NAME).write_bytes(line + b"\ncrc32 %08x\n" % crc32(line))
        assert places(tmp_path, log) == [1]
    log.rotten = 1
    (entry,) = opened(tmp_path, log).entries
    assert entry == entry_of(1, "n0", "n1")
    data = bytearray((tmp_path / FILE_NAME).read_bytes())
    data[3] ^= 1
    (tmp_path / FILE_NAME).write_bytes(data)
    assert places(tmp_path, log) == [1], "the other copy of the file counts"


def test_a_damaged_entry_of_another_term_than_its_copy_is_no_configuration(tmp_path: Path) -> None:
    """Truncated, and another leader's entry stands there: were it one, it would have been noted."""
    log = RottenLog(file_size=4096)
    log.append([b"one"], TERM)
    create(OS_FILES, tmp_path, staging=tmp_path)
    opened(tmp_path, log).note(entry_of(1, "n0"), TERM)
    log.append([b"something else"], Term(2))
    log.rotten = 1
    assert places(tmp_path, log) == []


def test_a_damaged_place_without_a_copy_is_not_guessed(tmp_path: Path) -> None:
    """As an earlier version noted it: it may be one, and the node would not know its group."""
    log = RottenLog(file_size=4096)
    log.append([b"one", b"group n0"], TERM)
    line = b'{"indexes": [1]}'
    (tmp_path / FILE_NAME).write_bytes(line + b"\ncrc32 %08x\n" % crc32(line))
    log.rotten = 1
    with pytest.raises(StoreDamaged):
        opened(tmp_path, log)


def test_a_full_disk_costs_the_file_and_the_next_start_reads_the_log(
    tmp_path: Path, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R20: a file that leaves a configuration out would hide it from the next start."""
    create(OS_FILES, tmp_path, staging=tmp_path)
    file = opened(tmp_path, log)
    with monkeypatch.context() as full:

        def refuse(*_args: object, **_named: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

        full.setattr(type(OS_FILES), "write_atomic", refuse)
        file.note(entry_of(2, "n0", "n1"), TERM)
        log.append([b"group n0 n1"], TERM)
        assert places(tmp_path, log) == [2], "it starts without writing the file, too"
        file.note(entry_of(3, "n0"), TERM)
        log.append([b"group n0"], TERM)
    assert not (tmp_path / FILE_NAME).exists()
    assert places(tmp_path, log) == [2, 3]
    assert (tmp_path / FILE_NAME).exists()


def test_another_error_of_the_disk_is_raised(
    tmp_path: Path, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(OS_FILES, tmp_path, staging=tmp_path)
    file = opened(tmp_path, log)

    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(type(OS_FILES), "write_atomic", refuse)
    with pytest.raises(OSError, match="input/output"):
        file.note(entry_of(2, "n0", "n1"), TERM)
    assert (tmp_path / FILE_NAME).exists()
