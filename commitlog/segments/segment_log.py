"""Many fixed-size files in one folder as one endless byte address space.

    <folder>/00000000000000000000   bytes [0, size)
    <folder>/00000000000000016384   bytes [size, 2·size)        name = address of the first byte

The log knows addresses, not records: who uses it knows what the bytes mean and where they end.
Plain CommitLog, replicated log, ConsumeQueues, their extension and BatchConsumeQueues stand on it.

Loading is strict (docs/spec/store.md 0): every name is a decimal number, every file has the one
size, each file begins where the one before it ends. Sub-folders are skipped, a zero-length last
file (left by a crash of other programs) is removed, anything else is a `StoreLayoutError`: refuse
to guess.

What a crash may leave: a zero-filled file more at the end (made ahead), bytes beyond what was
synced in any state, a half-made file in the staging folder.

Durability (safety_rules R11-R14): bytes go in by `pwrite`. `capture` takes all files written since
the last capture; `SegmentSync.run` syncs them in address order, in any thread, and syncs the folder
when files were made without. The owner notes its end **before** it calls `capture` and may count
up to there after `run`. A failed `run` means the log is failed; never run again.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.errors import StoreLayoutError
from commitlog.files.allocation import allocate_blocks
from commitlog.files.system import Buffer, File, FileSystem
from commitlog.segments.next_file import NAME_DIGITS, NextFile, is_segment_name
from commitlog.segments.segment import Segment
from commitlog.segments.segment_sync import SegmentSync

_ZEROS = bytes(1 << 20)


class SegmentGap(StoreLayoutError):
    """A file is missing between two others."""


class SegmentLog:
    """Byte addresses `start` to `limit`, backed by files of `file_size` bytes each.

    Args:
        files: the file system port.
        folder: where the segments are; made when the first one is created.
        file_size: bytes of every file; must match the files that exist.
        staging: folder on the same file system, outside `folder`, for half-made files.
        origin: address of the first file when the folder is empty.
        zeros: write zeros into new files (later syncs of them are cheaper) instead of only
            allocating them.
        durable: make new files durably, as R13 asks for the log. False for derived files: those
            take blocks in small steps, and become durable with the next `SegmentSync`.
        writable: False for tools; then nothing is ever changed.
        names: look at these files only, as if there were no others; for tools.
        opened: told of each segment that takes a descriptor; for derived files, of which there may
            be very many.

    Raises:
        StoreLayoutError: the folder does not hold exactly such files.

    Structure (files made, removed) is changed under a lock, so one thread may call `extend` while
    the owner's thread reads and writes. All else belongs to the owner's thread.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        file_size: int,
        *,
        staging: Path,
        origin: int = 0,
        zeros: bool = False,
        durable: bool = True,
        writable: bool = True,
        names: Sequence[str] | None = None,
        opened: Callable[[Segment], None] | None = None,
    ) -> None:
        assert file_size > 0
        self._opened = opened
        assert origin >= 0
        assert str(staging) != str(folder)  # not as paths: very many queues are opened at a start
        self._files, self.folder, self.file_size = files, folder, file_size
        self._next = NextFile(
            files, folder, file_size, staging=staging, zeros=zeros, durable=durable
        )
        self._origin, self._durable, self._writable = origin, durable, writable
        self._structure = threading.RLock()
        self._creation = threading.Lock()  # may be held for as long as it takes to write a file
        self._dirty: dict[int, Segment] = {}
        self._new_names = False
        self._segments = self._load(names)
        self._hot: Segment | None = None

    # ---- what is there -------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """Address of the first byte of the first file (of the first file to be, when empty)."""
        segments = self._segments
        return segments[0].start if segments else self._origin

    @property
    def limit(self) -> int:
        """Address one past the last byte of the last file."""
        segments = self._segments
        return segments[-1].end if segments else self._origin

    @property
    def file_starts(self) -> list[int]:
        """Address of each file, ascending."""
        return [segment.start for segment in self._segments]

    def file_start(self, position: int) -> int:
        """Address of the first byte of the file that holds (or will hold) `position`."""
        return position - (position - self.start) % self.file_size

    def left(self, position: int) -> int:
        """Bytes from `position` to the end of its file."""
        return self.file_size - (position - self.start) % self.file_size

    def path_of(self, position: int) -> Path:
        """Path of the file that holds `position`."""
        return self._next.path(self.file_start(position))

    def _load(self, names: Sequence[str] | None) -> list[Segment]:
        if names is None:
            sizes = self._files.file_sizes(self.folder)
        else:
            sizes = {name: self._files.file_size(self.folder / name) for name in names}
        segments: list[Segment] = []
        for number, (name, size) in enumerate(sizes.items()):
            path = self.folder / name
            if not is_segment_name(name):
                raise StoreLayoutError(
                    f"{path} is not a file of this store (names are {NAME_DIGITS} digits); "
                    "move it out of the folder"
                )
            if size == 0 and number == len(sizes) - 1:
                if self._writable:
                    self._files.remove(path)
                    self._files.sync_dir(self.folder)
                continue
            if size != self.file_size:
                raise StoreLayoutError(
                    f"{path} has {size} bytes and every file here must have {self.file_size}; "
                    "open the store with the file size it was written with, or restore the file"
                )
            if segments and segments[-1].end != int(name):
                raise SegmentGap(
                    f"{path} follows {segments[-1].path.name}, which ends at {segments[-1].end}; "
                    "a file is missing between them, restore it from a backup or a replica"
                )
            segments.append(self._segment(path, int(name)))
        return segments

    def _segment(self, path: Path, start: int) -> Segment:
        return Segment(
            self._files,
            path,
            start,
            self.file_size,
            writable=self._writable,
            opened=self._opened,
        )

    def _find(self, position: int) -> Segment:
        hot = self._hot
        if hot is not None and hot.start <= position < hot.end:
            return hot
        segments = self._segments
        place = bisect.bisect_right(segments, position, key=lambda segment: segment.start) - 1
        if place < 0 or position >= segments[place].end:
            raise IndexError(f"position {position} is outside {self.start}..{self.limit}")
        self._hot = segments[place]
        return segments[place]

    # ---- files come and go ---------------------------------------------------------------------

    def extend(self, limit: int | None = None) -> None:
        """Make one more file, unless the log's limit is no longer `limit`, as the caller read it.

        Raises OSError (ENOSPC, EROFS, ...); then nothing has changed.
        """
        with self._creation:
            if limit is None or self.limit == limit:
                self.adopt(self.create_next())

    def create_next(self) -> File:
        """Make the file behind the last one, in any thread, for `adopt`. Raises OSError."""
        assert self._writable
        return self._next.make(self.limit)

    def adopt(self, file: File) -> None:
        """Add the file that `create_next` made; no other file may have come meanwhile."""
        start = self.limit
        segment = self._segment(self._next.path(start), start)
        segment.adopt(file)
        with self._structure:
            self._new_names |= not self._durable
            self._segments = [*self._segments, segment]

    def ensure(self, position: int) -> None:
        """Make files until `position` lies in one."""
        while position >= self.limit:
            self.extend(self.limit)

    def start_at(self, origin: int) -> None:
        """Give an empty log another first address."""
        assert not self._segments
        assert origin >= 0
        self._origin = origin

    def drop_before(self, position: int) -> int:
        """Remove whole files below `position`, oldest first, never the last; return how many."""
        with self._structure:
            gone = [s for s in self._segments[:-1] if s.end <= position]
            self._segments = self._segments[len(gone) :]
            self._remove(gone)
        return len(gone)

    def drop_after(self, position: int) -> int:
        """Remove whole files that begin at or after `position`, newest first; return how many."""
        with self._structure:
            gone = [s for s in reversed(self._segments) if s.start >= position]
            if gone and len(gone) == len(self._segments):
                self._origin = gone[-1].start
            self._segments = self._segments[: len(self._segments) - len(gone)]
            self._remove(gone)
        return len(gone)

    def _remove(self, gone: list[Segment]) -> None:
        self._hot = None
        for segment in gone:
            self._dirty.pop(segment.start, None)
            segment.retire()
            self._files.remove(segment.path)
        if gone:
            self._files.sync_dir(self.folder)

    def truncate(self, position: int, *, written: int | None = None) -> None:
        """Drop every byte from `position` on, durably and physically (D6, R11).

        Files that begin behind `position` go first, newest first; then the rest of its file is
        zeroed and synced. `written`: address behind which all is zero anyway (default: unknown, the
        rest of the file is searched). The owner has made its intent durable before.
        """
        assert position >= self.start
        self.drop_after(max(position, self.start + 1))
        if position >= self.limit:
            return
        end = self._find(position).end if written is None else min(written, self.limit)
        segment = self._find(position)
        if self.zero(position, end) or segment.start in self._dirty:
            segment.file.datasync()
            self._dirty.pop(segment.start, None)

    def zero(self, begin: int, end: int) -> bool:
        """Make [begin, end) zero, writing only where it is not; were there other bytes?"""
        changed = False
        while begin < end:
            size = min(len(_ZEROS), end - begin, self.left(begin))
            if self.pread(size, begin) != bytes(size):
                self.pwrite(memoryview(_ZEROS)[:size], begin)
                changed = True
            begin += size
        return changed

    def forget(self, position: int) -> None:
        """Make everything from `position` on zero, not durably; the first file always stays.

        For derived files, which a later sync or the log makes right: what is zero stays untouched,
        so the cost is that of the bytes that are there. The log has files.
        """
        if position <= self._segments[-1].start:
            self.drop_after(max(position, self.start + 1))
        # Who made a file of which nothing is kept may have died before its folder's sync.
        self._new_names |= position <= self.start
        while position < self.limit:
            segment = self._find(position)
            begin, end = segment.file.next_data(position - segment.start)
            begin, end = begin + segment.start, min(end + segment.start, segment.end)
            if begin < end:
                self.zero(begin, end)
            position = end

    # ---- bytes ---------------------------------------------------------------------------------

    def pread(self, size: int, position: int) -> bytes:
        """Read `size` bytes from `position` on, across files; fewer only at `limit`."""
        segment = self._find(position)
        if position + size <= segment.end:
            return segment.file.pread(size, position - segment.start)
        parts: list[bytes] = []
        end = min(position + size, self.limit)
        while position < end:
            segment = self._find(position)
            step = min(end, segment.end) - position
            parts.append(segment.file.pread(step, position - segment.start))
            position += step
        return b"".join(parts)

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write `data` at `position`, across files; they must exist (`ensure`). Raises OSError."""
        segment = self._find(position)
        if position + len(data) <= segment.end:
            self._allocate_blocks(segment, position + len(data))
            segment.file.pwrite(data, position - segment.start)
            return
        rest = memoryview(data)
        while rest:
            segment = self._find(position)
            step = min(len(rest), segment.end - position)
            self._allocate_blocks(segment, position + step)
            segment.file.pwrite(rest[:step], position - segment.start)
            rest = rest[step:]
            position += step

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after the other from `position` on, as `pwrite` does."""
        segment = self._find(position)
        end = position + sum(map(len, parts))
        if end <= segment.end:
            self._allocate_blocks(segment, end)
            segment.file.pwritev(parts, position - segment.start)
            return
        for part in parts:
            self.pwrite(part, position)
            position += len(part)

    def _allocate_blocks(self, segment: Segment, end: int) -> None:
        """Get blocks before a write up to `end`. Raises OSError (ENOSPC): then do not write."""
        allocate_blocks(segment.file, end - segment.start, derived=not self._durable)
        self._dirty[segment.start] = segment

    def view(self, position: int, size: int) -> memoryview:
        """Read-only view of bytes of one file; shows later writes too."""
        segment = self._find(position)
        assert position + size <= segment.end, "a view never crosses files; use views()"
        return segment.file.view(position - segment.start, size)

    def views(self, position: int, size: int) -> tuple[memoryview, ...]:
        """Views that together cover [position, position + size), one per file."""
        parts = []
        while size > 0:
            step = min(size, self.left(position))
            parts.append(self.view(position, step))
            position += step
            size -= step
        return tuple(parts)

    # ---- durability ----------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """Was anything written since the last capture?"""
        return bool(self._dirty) or self._new_names

    def capture(self) -> SegmentSync:
        """Take the dirty files as one piece of disk work; later writes are not part of it."""
        segments, new_names = self.take_dirty()
        return SegmentSync(self._files, segments, self.folder if new_names else None)

    def take_dirty(self) -> tuple[list[Segment], bool]:
        """Take the dirty files, in address order, for the caller to sync; and are names new?"""
        with self._structure:
            dirty, self._dirty = self._dirty, {}
            new_names, self._new_names = self._new_names, False
            return [dirty[start] for start in sorted(dirty)], new_names

    def rest(self) -> None:
        """Close descriptors of files that are not dirty; they open again when needed."""
        self._hot = None
        for segment in self._segments:
            if segment.start not in self._dirty:
                segment.rest()

    def close(self) -> None:
        """Release every file, without a sync."""
        self._hot = None
        for segment in self._segments:
            segment.retire()
