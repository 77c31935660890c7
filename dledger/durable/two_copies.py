"""A small file of text that holds the same lines twice, so that either copy may rot.

    whole     copy copy                      both count
    rotted    copy ????    ???? copy         the other one counts
    cut off   copy co      copy              the first one counts, if all of it is there

Each copy has its checksum: behind its line, in a line of its own (`sign`), or as the format has it.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

#: The text of one copy, None when its checksum is another one.
Whole = Callable[[bytes], bytes | None]


def copies(data: bytes, whole: Whole, lines: int) -> list[bytes | None]:
    """The text of each copy in a file, None for one that is not whole.

    One alone for a file that has been written with one. `lines`: that a copy takes.
    """
    half = len(data) // 2
    found = [whole(data[:half]), whole(data[half:])]
    if found == [None, None]:
        rest = data.split(b"\n", lines)[-1]
        found[0] = whole(data[: len(data) - len(rest)])
        return found if rest or found[0] is None else found[:1]
    return found


def sign(line: bytes) -> bytes:
    """A copy of the line: behind it stands its checksum, in a line of its own."""
    return line + b"\ncrc32 %08x\n" % crc32(line)


def signed(copy: bytes) -> bytes | None:
    """The first line of a copy, None unless the second one is its checksum."""
    line = copy.partition(b"\n")[0]
    return line if copy == sign(line) else None
