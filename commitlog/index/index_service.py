"""The key index: files in order of creation, the newest one being written (docs/spec/store.md 4).

    index/<yyyyMMddHHmmssSSS>      local time of creation

Messages enter in log order, so positions ascend through the files. `put` takes whole batches and
rolls to a new file when one is full, in the middle of a message if need be.

What a crash may leave: see `index_file.py`. At start `keep` brings the index back to what the
dispatch mark vouches for; without a mark (stores of RocketMQ) `drop_unsafe`
removes every file younger than the checkpoint's index time, as RocketMQ does, and says from which
position on messages must be indexed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.files.system import FileSystem
from commitlog.index.index_file import IndexFile, IndexSync
from commitlog.index.index_format import QUERY_HITS_MAX, IndexGeometry, key_hash
from commitlog.records.dispatch_rules import refused

DEFAULT_GEOMETRY = IndexGeometry()


class IndexService:
    """All index files of a store.

    Args:
        folder: `<root>/index`.
        geometry: must be what the existing files were made with.
        now: seconds since 1970, for names of new files.

    Raises StoreLayoutError when a file has another size than the geometry says. Names that are not
    numbers are skipped, as RocketMQ does.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        *,
        staging: Path,
        geometry: IndexGeometry = DEFAULT_GEOMETRY,
        writable: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._fs, self.folder, self._staging, self._now = files, folder, staging, now
        self.geometry = geometry
        self.files = [
            IndexFile(files, folder / name, geometry, writable=writable)
            for name in files.list(folder)
            if name.isdigit() and not files.is_dir(folder / name)
        ]
        self._new_names = False

    @property
    def end_position(self) -> int:
        """Position of the newest message that was indexed; older ones are skipped.

        Source: docs/spec/store.md 4.
        """
        return self.files[-1].header.end_offset if self.files else 0

    @property
    def entry_count(self) -> int:
        """Entries in all files."""
        return sum(file.count for file in self.files)

    # ---- writing ---------------------------------------------------------------------------------

    def put(self, hashes: Sequence[int], positions: Sequence[int], times_ms: Sequence[int]) -> None:
        """Insert keys in log order: hash, position of the message, store time, in parallel.

        Three lists, or three arrays when numpy is loaded. Raises OSError (ENOSPC) when there is no
        space for all of them; then none went in, and the same may be given again. Raises
        StoreFailed when the disk refuses otherwise; then the index ends somewhere within the batch.
        """
        assert len(hashes) == len(positions) == len(times_ms)
        count = len(hashes)
        if self.files:
            self.files[-1].allocate_blocks(count)
        ahead = self._make_ahead(count - (self.files[-1].left if self.files else 0))
        try:
            while len(hashes):
                if not self.files or self.files[-1].full:
                    self._take(ahead.pop(0))
                taken = self.files[-1].put(hashes, positions, times_ms)
                hashes, positions, times_ms = hashes[taken:], positions[taken:], times_ms[taken:]
        except OSError as error:
            raise refused(error) from error

    def _make_ahead(self, count: int) -> list[IndexFile]:
        """New files with blocks for `count` entries, or OSError and none."""
        made: list[IndexFile] = []
        try:
            while count > 0:
                before = (made or self.files)[-1:]
                made.append(self._create(before[0].path.name if before else ""))
                made[-1].allocate_blocks(count)
                count -= made[-1].left
        except OSError:
            for file in made:
                self._drop(file)
            raise
        return made

    def _create(self, before: str) -> IndexFile:
        name = _name(self._now())
        if name <= before:
            # Two in one millisecond, or a clock that went back: names must ascend.
            name = str(int(before) + 1)
        path, geometry = self.folder / name, self.geometry
        return IndexFile.create(self._fs, path, geometry, staging=self._staging)

    def _take(self, file: IndexFile) -> None:
        if self.files:
            file.follow(self.files[-1])
        self.files.append(file)
        self._new_names = True

    # ---- reading ---------------------------------------------------------------------------------

    def query(
        self,
        topic: str,
        key: str,
        hits_max: int = 32,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[int]:
        """Positions of messages of `topic` stored within [begin, end] under `key`, newest first.

        Only hashes are compared: the caller looks at the real keys. At most 64.
        """
        hash_of_key, hits_max = key_hash(f"{topic}#{key}"), min(hits_max, QUERY_HITS_MAX)
        found: list[int] = []
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                found += file.query(hash_of_key, hits_max - len(found), begin_ms, end_ms)
            if file.header.begin_timestamp_ms < begin_ms or len(found) >= hits_max:
                break
        return found

    # ---- going back and going away ---------------------------------------------------------------

    def keep(self, name: str, next_ordinal: int, end_ms: int) -> bool:
        """Bring the index back to where `name` was the newest file and had these entries.

        `end_ms`: store time of the last of them. "" for no file at all. False when that file is
        not here or lacks entries: then the index must be built anew.
        """
        while self.files and self.files[-1].path.name > name:
            self._drop(self.files.pop())
        self._sync_names()
        if not name:
            return True
        if not self.files or self.files[-1].path.name != name:
            return False
        return self.files[-1].keep(next_ordinal, end_ms)

    def cut(self, position: int, store_time_of: Callable[[int], int] | None = None) -> None:
        """Forget every message at or above `position`; slots of the newest file are made anew."""
        while self.files and self._first_position(self.files[-1]) >= position:
            self._drop(self.files.pop())
        if self.files:
            self.files[-1].cut(position, store_time_of)
        self._sync_names()

    def _first_position(self, file: IndexFile) -> int:
        return file.entry(1).physical_offset if file.count else 1 << 63

    def drop_unsafe(
        self, index_time_ms: int, store_time_of: Callable[[int], int] | None = None
    ) -> int | None:
        """Remove files younger than the checkpoint's index time on an unclean load.

        Returns the position from which messages must be indexed again, None when nothing went. Of
        a message whose first keys stand in an older file these go, too: it is indexed as a whole.
        `store_time_of`: see `cut`. Source: docs/spec/store.md 4.
        """
        again: int | None = None
        while self.files and self.files[-1].header.end_timestamp_ms > index_time_ms:
            file = self.files.pop()
            again = file.header.begin_offset
            self._drop(file)
        if again is not None and self.end_position >= again:
            self.cut(again, store_time_of)
        self._sync_names()
        return again

    def drop_before(self, position_min: int) -> int:
        """Remove files from the front that end below `position_min`, never the last one."""
        count = 0
        while len(self.files) > 1 and self.files[0].header.end_offset < position_min:
            self._drop(self.files.pop(0))
            count += 1
        self._sync_names()
        return count

    def remove(self) -> None:
        """Remove every file."""
        while self.files:
            self._drop(self.files.pop())
        self._sync_names()

    def _drop(self, file: IndexFile) -> None:
        file.close()
        self._fs.remove(file.path)
        self._new_names = True

    def _sync_names(self) -> None:
        if self._new_names:
            self._fs.sync_dir(self.folder)
            self._new_names = False

    # ---- durability ------------------------------------------------------------------------------

    @property
    def dirty(self) -> bool:
        """True if any file has keys that are not synced."""
        return any(file.dirty for file in self.files)

    def capture(self) -> IndexServiceSync:
        """Everything put up to now, as one piece of disk work; one at a time."""
        for file in self.files[:-1]:
            if not file.dirty:
                file.forget_slots()  # the sync before this one has written them
        tasks = [(file, file.capture()) for file in self.files if file.dirty]
        folders = [self.folder, self.folder.parent] if self._new_names else []
        self._new_names = False
        full_time_ms = max(
            (file.header.end_timestamp_ms for file in self.files if file.full), default=0
        )
        return IndexServiceSync(self._fs, tasks, folders, full_time_ms)

    def again(self, sync: IndexServiceSync) -> None:
        """Let the next sync repeat `sync`, which found no free space and wrote no byte."""
        for file, task in sync.tasks:
            if file in self.files:
                file.again(task)
        self._new_names |= bool(sync.folders)

    def close(self) -> None:
        """Release files and memory, without a write."""
        for file in self.files:
            file.close()
        self.files = []


class IndexServiceSync:
    """`full_time_ms`: end time of the newest full file, for the checkpoint, once `run` is done."""

    def __init__(
        self,
        files: FileSystem,
        tasks: list[tuple[IndexFile, IndexSync]],
        folders: list[Path],
        full_time_ms: int,
    ) -> None:
        self._fs, self.tasks, self.folders = files, tasks, folders
        self.full_time_ms = full_time_ms

    def allocate_blocks(self) -> None:
        """Get blocks for all that `run` writes. Raises OSError (ENOSPC) before any write."""
        for _, task in self.tasks:
            task.allocate_blocks()

    def run(self) -> None:
        """Write and sync, oldest file first. Raises OSError."""
        for _, task in self.tasks:
            task.run()
        for folder in self.folders:
            self._fs.sync_dir(folder)


def _name(seconds: float) -> str:
    """17 digits of local time, milliseconds last (docs/spec/store.md 4)."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return time.strftime("%Y%m%d%H%M%S", time.localtime(whole)) + f"{milliseconds:03d}"
