"""Content of a file: all of it, or parts that follow each other, so that none is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from commitlog.files.paced_sync import PacedSync

Part = bytes | bytearray | memoryview
SETTLE_BYTES = 1 << 20
Known = bytes | Sequence[Part]


class Streamed(NamedTuple):
    """Parts that are made while they are written, once, behind a head that is known last.

    Attributes:
        head_size: bytes of the head.
        parts: all bytes behind it.
        head: called when the parts are at their end.
    """

    head_size: int
    parts: Iterable[Part]
    head: Callable[[], bytes]


Content = Known | Streamed


def content_parts(content: Known) -> Sequence[Part]:
    """The parts of a content, in order; bytes are one part."""
    return [content] if isinstance(content, bytes) else content


def joined(content: Content) -> bytes:
    """All of it in one piece; copies the parts."""
    if isinstance(content, Streamed):
        behind = b"".join(content.parts)
        return content.head() + behind
    return content if isinstance(content, bytes) else b"".join(content)


def size_of(content: Known) -> int:
    """Bytes of all parts together."""
    return sum(map(len, content_parts(content)))


class Written(Protocol):
    """The file, as far as it is used here."""

    def pwrite(self, data: Part, position: int) -> None:
        """Write all of the bytes at this place."""
        ...

    def datasync(self) -> None:
        """Make all written bytes durable."""
        ...


def write_file(file: Written, content: Content) -> None:
    """Write it from position 0 on; a large one is synced on the way, with rests."""
    write_parts(file.pwrite, content, PacedSync(file.datasync))


def write_parts(
    pwrite: Callable[[Part, int], None], content: Content, settle: Callable[[], None]
) -> None:
    """Write the parts one behind the other from position 0 on.

    `settle`: syncs what was written so far; called each time that `SETTLE_BYTES` came together, so
    that other syncs of the same disk never wait for all of a large file.
    """
    if not isinstance(content, Streamed):
        content = Streamed(0, content_parts(content), bytes)
    at = settled = content.head_size
    for part in content.parts:
        for begin in range(0, len(part), SETTLE_BYTES):
            piece = part if len(part) <= SETTLE_BYTES else memoryview(part)[begin:][:SETTLE_BYTES]
            if at - settled >= SETTLE_BYTES:  # before more: the writer syncs the end itself
                settle()
                settled = at
            pwrite(piece, at)
            at += len(piece)
    if content.head_size:
        pwrite(content.head(), 0)
