"""Content of a file: all of it, or parts that follow each other, so that none is copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Part = bytes | bytearray | memoryview
Content = bytes | Sequence[Part]


def size_of(content: Content) -> int:
    """Bytes of all parts together."""
    return len(content) if isinstance(content, bytes) else sum(map(len, content))


def write_parts(pwrite: Callable[[Part, int], None], content: Content) -> None:
    """Write the parts one behind the other from position 0 on."""
    at = 0
    for part in [content] if isinstance(content, bytes) else content:
        pwrite(part, at)
        at += len(part)
