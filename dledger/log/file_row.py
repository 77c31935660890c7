"""FileRow: one address space, cut into files of equal size that are named by their first address.

    <folder>/00000000000000000000   <folder>/00000000001073741824   …

`FileSystem.create` makes a file with its full length, all zeros. `begin_prepare` makes the next
file and allocates blocks ahead, so that writes need not wait for it, and so that a full disk is
noticed while blocks are left. All bytes after the last record are zero: a file is never used again
for other records (R14), and a truncation writes zeros. After a crash there may be files of zeros at
the end of the row, and an unfinished file in the staging folder.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from commitlog.errors import StoreLayoutError
from commitlog.files.allocation import allocate_blocks, next_step, reserve
from commitlog.files.system import (
    ALLOCATE_STEP,
    Buffer,
    File,
    FileSystem,
    is_out_of_space,
)
from commitlog.segments.next_file import MakeTask, NextFile, is_segment_name
from dledger.log.check import is_zero

_STEP = 1 << 20  # bytes read or zeroed at a time
_ZEROS = bytes(_STEP)


class AllocateTask:
    """Get blocks ahead of the next writes."""

    def __init__(self, file: File) -> None:
        self._file, self._lock = file, threading.Lock()
        self.is_done = False

    def run(self) -> None:
        """Allocates the file's next step of blocks, unless done or dropped. Raises OSError."""
        with self._lock:
            if not self.is_done:
                self._file.allocate(next_step(self._file))
                self.is_done = True

    def drop(self) -> None:
        """Allocate no more, as the file is about to be closed; waits while another thread does."""
        with self._lock:
            self.is_done = True


class FileRow:
    """The open files. `start` is the first address, `end` the one behind the last file.

    `unlinked`: files that are deleted from the folder and stay open until `close_unlinked`.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        file_size: int,
        *,
        staging: Path,
        zeros: bool = False,
        writable: bool = True,
    ) -> None:
        self._files, self._folder, self.file_size = files, folder, file_size
        self._next = NextFile(files, folder, file_size, staging=staging, zeros=zeros)
        self._writable = writable
        self._row: list[File] = []
        self._allocating: AllocateTask | None = None
        self.unlinked: list[File] = []
        self.start = self.end = 0
        #: From the end of the records to this address, files are made and blocks allocated.
        self.space_end = 0
        #: `begin_prepare` has no work while the records end below this address.
        self._enough_until = 0

    def load(self) -> None:
        """Open every file. Raises StoreLayoutError for anything but a row without gaps."""
        starts = self.starts()
        for start in starts:
            size = self._files.file_size(self.path(start))
            if size != self.file_size or start % size:
                raise StoreLayoutError(
                    f"{self.path(start)} has {size} bytes and the file size of this log is "
                    f"{self.file_size}; set the size it was made with, which can never change"
                )
        for left, right in pairwise(starts):
            if right - left != self.file_size:
                raise StoreLayoutError(
                    f"{self._folder} has no file {left + self.file_size:020}, but it has the files "
                    "before and after that one; restore the missing file"
                )
        for start in starts:
            self._row.append(self._files.open(self.path(start), writable=self._writable))
        self.start = starts[0] if starts else 0
        self._measure()

    def starts(self) -> list[int]:
        """First addresses of the files in the folder, ascending. Raises StoreLayoutError."""
        names = self._files.list(self._folder)
        for name in names:
            if not is_segment_name(name):
                raise StoreLayoutError(
                    f"{self._folder / name} is not a file of a log; move it out of the folder"
                )
        return sorted(int(name) for name in names)

    def path(self, start: int) -> Path:
        """Where the file is that begins at address `start`."""
        return self._next.path(start)

    def _measure(self) -> None:
        """Compute `end` again after files came or went; it is read several times per entry."""
        self.space_end = self._enough_until = 0
        self.end = self.start + len(self._row) * self.file_size

    def __len__(self) -> int:
        return len(self._row)

    def make(self, start: int) -> File:
        """Make a file of a row that is not loaded yet. Raises OSError."""
        return self._next.make(start)

    def first_file(self, start: int) -> None:
        """Begin the row, which is empty, at address `start`.

        Raises OSError; on a full disk it names the file and the space that it needs.
        """
        assert not self._row
        assert start % self.file_size == 0 or start == self.start
        try:
            file = self._next.make(start)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            takes = min(self.file_size, ALLOCATE_STEP) / (1 << 20)
            what = f"no space for the log's first file, which takes {takes:.3g} MiB to begin with"
            raise OSError(error.errno, what, str(self.path(start))) from error
        self.start = start
        self._row.append(file)
        self._measure()

    def begin_prepare(self, used: int) -> MakeTask | AllocateTask | None:
        """A task that allocates blocks when few are left, or makes the next file once the last one
        is half full; None when neither is needed."""
        if used < self._enough_until:  # nearly always: asked once per sync
            return None
        return self._begin_allocate(used) or self._begin_file(used)

    def _begin_allocate(self, used: int) -> AllocateTask | None:
        if not self.start <= used < self.end:
            return None
        file, offset = self.file_at(used)
        blocks_until = used - offset + file.allocated - reserve(file)
        if used <= blocks_until:
            self._enough_until = min(blocks_until, self.end - self.file_size // 2)
            return None
        if self._allocating is not None and not self._allocating.is_done:
            return None
        self._allocating = AllocateTask(file)
        return self._allocating

    def _begin_file(self, used: int) -> MakeTask | None:
        if self._next.is_begun or self.end - used > self.file_size // 2:
            return None
        return self._next.begin(self.end)

    def make_space(self, begin: int, end: int) -> None:
        """Get files and blocks for a write from `begin` to `end`, now.

        Raises OSError: ENOSPC when the disk is full, and then the row can be used as before.
        """
        if end <= self.space_end:
            return
        while self.end < end:
            self.extend()
        begin = max(begin, self.start)
        for file, offset, size in self.pieces(begin, end - begin):
            allocate_blocks(file, offset + size)
        file, offset = self.file_at(end - 1)
        self.space_end = end - 1 - offset + file.allocated

    def begin_space(self, begin: int, end: int) -> MakeTask | AllocateTask | None:
        """The first step that `make_space` would have to do, as a task for any thread; or None."""
        begin = max(begin, self.start)
        for file, offset, size in self.pieces(begin, end - begin):
            if offset + size > file.allocated:
                if self._allocating is None or self._allocating.is_done:
                    self._allocating = AllocateTask(file)
                return self._allocating
        if self.end >= end:
            return None
        return self._next.begin(self.end)

    def extend(self) -> None:
        """Add the next file, made ahead or made now. Raises OSError; it can be called again."""
        self._row.append(self._next.take(self.end))
        self._measure()

    def in_order(self, files: list[File]) -> list[File]:
        """The given files that are still in the row, by address; unlinked files are left out."""
        if len(files) == 1 and files[0] is self._row[-1]:  # nearly always
            return list(files)
        return [file for file in self._row if file in files]

    def file_at(self, position: int) -> tuple[File, int]:
        """The file that holds `position`, and the offset in it."""
        number, offset = divmod(position - self.start, self.file_size)
        assert 0 <= number < len(self._row), "the address is outside the files"
        return self._row[number], offset

    def pieces(self, position: int, size: int) -> Iterator[tuple[File, int, int]]:
        """(file, offset in it, bytes) that cover the range, as far as there are files."""
        end = min(position + size, self.end)
        while position < end:
            file, offset = self.file_at(position)
            step = min(end - position, self.file_size - offset)
            yield file, offset, step
            position += step

    def read(self, position: int, size: int) -> bytes:
        """Bytes of the range; fewer where the row ends."""
        number, offset = divmod(position - self.start, self.file_size)
        if offset + size <= self.file_size and 0 <= number < len(self._row):  # nearly always
            return self._row[number].pread(size, offset)
        parts = [file.pread(step, at) for file, at, step in self.pieces(position, size)]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write(self, data: Buffer, position: int) -> list[File]:
        """Write across files, which must exist; the files that were touched."""
        number, offset = divmod(position - self.start, self.file_size)
        if offset + len(data) <= self.file_size and 0 <= number < len(self._row):  # nearly always
            file = self._row[number]
            if offset + len(data) > file.allocated:
                allocate_blocks(file, offset + len(data))
            file.pwrite(data, offset)
            return [file]
        touched: list[File] = []
        done, view = 0, memoryview(data)
        for file, offset, step in self.pieces(position, len(view)):
            allocate_blocks(file, offset + step)
            file.pwrite(view[done : done + step], offset)
            done += step
            touched.append(file)
        assert done == len(view), "the write reaches behind the last file"
        return touched

    def zero(self, position: int, end: int) -> list[File]:
        """Write zeros from `position` to `end`; the files that were touched."""
        touched: list[File] = []
        for file, offset, size in self.pieces(position, end - position):
            for done in range(0, size, _STEP):
                file.pwrite(memoryview(_ZEROS)[: min(_STEP, size - done)], offset + done)
            touched.append(file)
        return touched

    def zero_rest(self, position: int) -> list[File]:
        """Zero all bytes from `position` to the end of the row; return the changed files.

        It skips holes, which read as zero: each start calls this, and a new file is 1 GiB of hole.
        """
        touched: list[File] = []
        for file, offset, size in self.pieces(position, self.end - position):
            dirty, at, end = False, offset, offset + size
            while at < end:  # each turn goes on behind a range that may hold something
                at, hole = file.next_data(at)
                for begin in range(at, min(hole, end), _STEP):
                    step = min(_STEP, min(hole, end) - begin)
                    if not is_zero(file.pread(step, begin)):
                        file.pwrite(memoryview(_ZEROS)[:step], begin)
                        dirty = True
                at = hole
            if dirty:
                touched.append(file)
        return touched

    def drop_after(self, position: int) -> list[File]:
        """Unlink the files that begin behind `position`, newest first.

        They stay open until `close_unlinked`, because a sync may be running on them; they are
        returned so that the caller can forget them.
        """
        dropped: list[File] = []
        ahead = self._next.drop()
        if ahead is not None:
            self._row.append(ahead)
        while self._row and self.start + (len(self._row) - 1) * self.file_size > position:
            file = self._row.pop()
            self._files.remove(file.path)
            self._files.sync_dir(self._folder)  # each, so that a crash leaves no gap
            dropped.append(file)
        self.unlinked += dropped
        self._measure()
        return dropped

    def forget_before(self, position: int) -> None:
        """Drop files that end at or below `position`, which the caller has unlinked.

        They move to `unlinked`, as they stay open until `close_unlinked`.
        """
        while len(self._row) > 1 and self.start + self.file_size <= position:
            self.unlinked.append(self._row.pop(0))
            self.start += self.file_size
        self._measure()

    def forget(self) -> None:
        """Drop all files, which the caller is about to unlink; they move to `unlinked`."""
        ahead = self._next.drop()
        if ahead is not None:
            self._row.append(ahead)
        self.unlinked += self._row
        self._row.clear()
        self._measure()

    def write_again(self, position: int, end: int) -> None:
        """Write the bytes from `position` to `end` that are in the folder's files once more.

        Their pages are dirty then, whatever became of them before; holes stay. Raises OSError.
        """
        for start in self.starts():
            at, to = max(position - start, 0), min(end - start, self.file_size)
            if at >= to:
                continue
            file = self._files.open(self.path(start))
            try:
                while at < to:  # each turn goes on behind a range that holds something
                    at, hole = file.next_data(at)
                    for begin in range(at, min(hole, to), _STEP):
                        file.pwrite(file.pread(min(_STEP, min(hole, to) - begin), begin), begin)
                    at = hole
            finally:
                file.close()

    def sync_all(self) -> None:
        """Sync every file of the folder, whether it fits the row or not. Raises OSError."""
        for start in self.starts():
            file = self._files.open(self.path(start))
            try:
                file.datasync()
            finally:
                file.close()

    def remove_all(self) -> None:
        """Unlink every file of the folder, whether it fits the row or not."""
        self.close()
        for start in reversed(self.starts()):
            self._files.remove(self.path(start))
        self._files.sync_dir(self._folder)

    def _drop_allocating(self) -> None:
        """Stop the allocating task; called before any file is closed."""
        if self._allocating is not None:
            self._allocating.drop()
            self._allocating = None

    def close_unlinked(self) -> None:
        """Closes the files in `unlinked`; call it when no task uses them any more."""
        if self.unlinked:
            self._drop_allocating()
        for file in self.unlinked:
            file.close()
        self.unlinked.clear()

    def close(self) -> None:
        """Closes all files, one made ahead and unlinked ones as well; syncs none of them."""
        ahead = self._next.drop()
        if ahead is not None:
            ahead.close()
        self._drop_allocating()
        self.close_unlinked()
        for file in self._row:
            file.close()
        self._row.clear()
        self._measure()
