"""A state on disk, read piece by piece: only the piece is held.

StateFile   a state in the folder, proven; `open` gives a binary file of its bytes
FileParts   a file of the machine's as the parts of a state
Joined      parts behind each other, read when they are asked for
Named       parts by name, read when they are asked for
Summed      parts that come once, with their size and checksum when they are at their end
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast, overload

from commitlog.errors import StoreDamaged
from commitlog.files.system import Buffer, File
from commitlog.records.checksum import crc32

PIECE = 1 << 20


class StateFile:
    """A state in a file, found right when this was made."""

    def __init__(self, opened: Callable[[], File], begin: int, size: int, crc: int) -> None:
        """`opened`: opens the file; `begin`, `size`, `crc`: of the state in it."""
        self._opened, self._begin, self.size, self._crc = opened, begin, size, crc

    def open(self) -> io.RawIOBase:
        """From its beginning, unbuffered, forward only. Raises OSError.

        Reads raise StoreDamaged at its end if the bytes are others by then.
        """
        return _Reading(self._opened(), self._begin, self.size, self._crc)


def buffered(file: io.RawIOBase, between: Callable[[], None] | None = None) -> BinaryIO:
    """The rest of it, for reads of lines; one read to the end holds it once.

    `between`: called before each read, in the reader's thread.
    """
    if between is None:
        return cast(BinaryIO, io.BufferedReader(file, PIECE))
    return cast(BinaryIO, _Rested(file, between))


class _Rested(io.BufferedReader):
    """Has its reader rest before each read; iterating calls `readline`."""

    def __init__(self, file: io.RawIOBase, between: Callable[[], None]) -> None:
        super().__init__(file, PIECE)
        self._between = between

    def readline(self, size: int | None = -1, /) -> bytes:
        self._between()
        return super().readline(size)

    def read(self, size: int | None = -1, /) -> bytes:
        self._between()
        return super().read(size)

    def read1(self, size: int = -1, /) -> bytes:
        self._between()
        return super().read1(size)

    def readinto(self, target: Buffer, /) -> int:  # type: ignore[override]
        self._between()
        return super().readinto(target)


class _Reading(io.RawIOBase):
    """Reads forward only, so that the checksum is that of all bytes."""

    def __init__(self, file: File, begin: int, size: int, crc: int) -> None:
        self._file, self._begin, self._left, self._crc = file, begin, size, crc
        self._have = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Buffer) -> int:  # type: ignore[override]
        view = memoryview(target)
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """In one piece: joined parts would be held twice."""
        return self._next(self._left)

    def _next(self, size_max: int) -> bytes:
        size = min(size_max, self._left)
        if not size:
            return b""
        data = self._file.pread(size, self._begin)
        self._begin, self._left = self._begin + size, self._left - size
        self._have = crc32(data, self._have)
        if len(data) != size or (not self._left and self._have != self._crc):
            raise StoreDamaged(
                "a state changed while it was read; start this node again",
                path=str(self._file.path),
                position=0,
            )
        return data

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class Lazy(Sequence[Buffer]):
    """Parts that are read each time that they are asked for."""

    @overload
    def __getitem__(self, at: int) -> Buffer: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Buffer]: ...
    def __getitem__(self, at: int | slice) -> Buffer | Sequence[Buffer]:
        if isinstance(at, slice):
            return [self.part(one) for one in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(at)
        return self.part(at)

    def part(self, at: int) -> Buffer:
        """Part number `at`."""
        raise NotImplementedError


class FileParts(Lazy):
    """A file in pieces of a MiB. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, path.stat().st_size

    def __len__(self) -> int:
        return -(-self._size // PIECE)

    def part(self, at: int) -> bytes:
        """Piece number `at`."""
        with self._path.open("rb") as file:
            file.seek(at * PIECE)
            return file.read(PIECE)


class Joined(Lazy):
    """Sequences behind each other, as one."""

    def __init__(self, *sequences: Sequence[Buffer]) -> None:
        self._sequences = sequences

    def __len__(self) -> int:
        return sum(map(len, self._sequences))

    def __iter__(self) -> Iterator[Buffer]:
        for sequence in self._sequences:
            yield from sequence

    def part(self, at: int) -> Buffer:
        """Part number `at` of all."""
        for sequence in self._sequences:
            if at < len(sequence):
                return sequence[at]
            at -= len(sequence)
        raise IndexError(at)


class Named(Lazy):
    """Parts by name, one held at a time: together they may be larger than memory."""

    def __init__(self, names: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._names, self._read = names, read

    def __len__(self) -> int:
        return len(self._names)

    def part(self, at: int) -> bytes:
        """Part number `at`."""
        return self._read(self._names[at])


class Summed:
    """Parts that come once; `size` and `crc` are those of all that came."""

    def __init__(self, parts: Iterable[Buffer]) -> None:
        self._parts = parts
        self.size = self.crc = 0

    def __iter__(self) -> Iterator[Buffer]:
        for part in self._parts:
            self.size += len(part)
            self.crc = crc32(part, self.crc)
            yield part
