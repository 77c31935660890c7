"""Data files at or below the flush mark that were deleted by hand.

The row begins where the log begins and reaches to the record that the flush mark names; whatever of
it is not in the folder was there. It is made again, full of zeros: damage like any other, whose
entries come back from peers while the node runs. Index files are a cache and made from the records.

    <folder>/gone    first addresses of such files, 20 digits each, in lines of their own

It is written before the files are made, and removed by a start that finds them whole and has made
sure that they are on disk: until then every start looks through them, so that no restart forgets
what is missing (R2).
"""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import Index
from dledger.durable.flush_mark import Mark
from dledger.log.file_row import FileRow
from dledger.log.slots import SlotFiles

FILE_NAME = "gone"


class Note:
    """Which files were made again, on disk."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        self._files, self._folder = files, folder

    def read(self) -> set[int]:
        """First addresses of the files that were made again; empty when there is no note."""
        path = self._folder / FILE_NAME
        if not self._files.exists(path):
            return set()
        return {int(line) for line in self._files.read(path).split() if line.isdigit()}

    def write(self, starts: list[int]) -> None:
        """Durable when this returns. Raises OSError."""
        text = "".join(f"{start:020}\n" for start in starts).encode()
        self._files.write_atomic(self._folder / FILE_NAME, text, staging=self._folder / "staging")

    def clear(self) -> None:
        """Deletes the note, durably. Raises OSError."""
        self._files.remove(self._folder / FILE_NAME)
        self._files.sync_dir(self._folder)


def make_again(
    data: FileRow, slots: SlotFiles, mark: Mark, begin: int, first: Index, note: Note
) -> list[int]:
    """Make the files that are gone, durably. Raises OSError.

    Returns the first addresses of all that were made again and may not be whole yet. None is made
    when the first or the last one is gone and no slot says that the log begins or ends there.
    `begin`: address of its first entry, `first`. The row of data files is not loaded yet.
    """
    if mark.position < begin:
        return []
    end = mark.position - mark.position % data.file_size
    there = {*data.starts()}
    gone = [start for start in range(begin, end + 1, data.file_size) if start not in there]
    for start, index, position in ((begin, first, begin), (end, mark.index, mark.position)):
        slot = slots.read(index)
        if start in gone and (slot is None or slot.position != position):
            return []
    known = note.read()
    if gone:
        note.write(sorted({*gone, *known}))
    for start in gone:
        data.make(start).close()
    return sorted({*gone, *known})


def first_behind(slots: SlotFiles, first: Index, last: Index, position: int) -> Index:
    """The first of the entries `first`..`last` that lies at `position` or behind, by its slot.

    `first` when a slot on the way is not valid.
    """
    low, high = int(first), int(last)
    while low < high:
        middle = (low + high) // 2
        slot = slots.read(middle)
        if slot is None:
            return first
        if slot.position < position:
            low = middle + 1
        else:
            high = middle
    return Index(low)
