"""Derived files as one thing: what voids the mark, rebuilding, cutting, a bounded start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from commitlog.dispatch.derived import DerivedFiles
from commitlog.dispatch.dispatch_mark import NAME, DispatchMark, decode_mark, encode_mark, read_mark
from commitlog.files.system import OS_FILES, OsFile, OsFileSystem
from commitlog.records.message import Message
from commitlog.store.store import MessageStore

from ..golden import SMALL
from ..test_broker_store import END, derived_from_log, log_bytes, sync

COUNTS = {"consumequeue/T/0": 3}


def test_a_mark_is_itself_or_nothing() -> None:
    mark = DispatchMark(5, 6, COUNTS, "20260101000000000", 9, 7)
    data = encode_mark(mark)
    assert decode_mark(data) == mark
    for at in range(len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        assert decode_mark(bytes(changed)) is None, changed
    for bad in (b"", b"{}", b"[]", b"null", data[:-5], b"\xff" * 20):
        assert decode_mark(bad) is None


def reopened(root: Path) -> DerivedFiles:
    return DerivedFiles(OS_FILES, root, SMALL, staging=root / "staging", entries=True)


@pytest.mark.parametrize("harm", ["queue folder", "queue file", "index", "mark", "other mark"])
def test_missing_files_are_built_anew_from_the_start(tmp_path: Path, harm: str) -> None:
    derived = derived_from_log(tmp_path)
    sync(derived)
    wanted = derived.queues.counts()
    derived.close()
    if harm == "queue folder":
        shutil.rmtree(tmp_path / "consumequeue" / "GoldB")
    elif harm == "queue file":
        (tmp_path / "consumequeue" / "GoldA" / "1" / f"{400:020d}").unlink()
    elif harm == "index":
        shutil.rmtree(tmp_path / "index")
    elif harm == "mark":
        (tmp_path / NAME).write_bytes(b"rubbish")
    else:
        (tmp_path / NAME).write_bytes(encode_mark(DispatchMark(END, 1, wanted, "", 1)))
        next((tmp_path / "index").iterdir()).unlink()
        # A mark without an index: whatever is there goes, queues stay.
    derived = reopened(tmp_path)
    position = derived.recover(0, END)
    if harm == "other mark":
        assert position == END
        assert derived.index is not None
        assert derived.index.entry_count == 0
    else:
        assert position == 0
        assert not any(derived.queues.counts().values())
    mark = read_mark(OS_FILES, tmp_path)
    assert mark is not None
    assert mark.position == position
    derived.close()


def test_a_log_that_lost_its_end_takes_the_rest_along(tmp_path: Path) -> None:
    derived = derived_from_log(tmp_path)
    sync(derived)
    derived.close()
    derived = reopened(tmp_path)
    assert derived.recover(0, 50_000) == 50_000
    for queue in derived.queues:
        assert all(entry.physical_offset < 50_000 for entry in queue.read(0, 100))
    mark = read_mark(OS_FILES, tmp_path)
    assert mark is not None
    assert mark.position == 50_000  # or a crash after new dispatches would trust too much
    derived.close()


def test_cut_at_run_time(tmp_path: Path) -> None:
    derived = derived_from_log(tmp_path)
    boundary = 32_768  # a file's first record begins here
    derived.cut(boundary)
    assert derived.dispatcher.position == boundary
    mark = read_mark(OS_FILES, tmp_path)
    assert mark is not None
    assert mark.position == boundary
    data = log_bytes()
    derived.dispatcher.dispatch(boundary, [data[begin : begin + 16_384] for begin in FILES])
    again = derived_from_log(tmp_path / "again")
    assert derived.queues.counts() == again.queues.counts()
    assert derived.index is not None
    assert again.index is not None
    assert derived.index.entry_count == again.index.entry_count
    derived.close()
    again.close()


FILES = range(32_768, END, 16_384)


class Counting(OsFileSystem):
    """Counts bytes read from log files."""

    bytes_read = 0

    def open(self, path: Path, *, writable: bool = True) -> OsFile:
        file = super().open(path, writable=writable)
        return _CountingFile(file, self) if path.parent.name == "commitlog" else file  # type: ignore[return-value]


class _CountingFile:
    def __init__(self, file: OsFile, files: Counting) -> None:
        self._file, self._files = file, files

    def pread(self, size: int, position: int) -> bytes:
        self._files.bytes_read += size
        return self._file.pread(size, position)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def test_a_restart_after_a_kill_reads_from_the_mark_on(tmp_path: Path) -> None:
    """Scanning is bounded by the mark, not by the log."""
    store = MessageStore(tmp_path, SMALL, threads=False)
    for _ in range(200):
        store.put(Message(topic="t", body=b"x" * 1000, properties={"KEYS": "k"}))
    store.tick()
    for _ in range(3):
        store.put(Message(topic="t", body=b"y" * 1000))
    end = store.max_position
    store._opened.release()  # as a SIGKILL: nothing is closed
    files = Counting()
    with MessageStore(tmp_path, SMALL, files=files, threads=False) as store:
        # walk, rewrite and dispatch of three messages, one store time, and the zeros behind them
        assert files.bytes_read < 3 * 3_400 + 3 * 16_384
        assert store.max_position == end
        assert store.queue_bounds("t", 0) == (0, 203)
    assert end > 200_000
