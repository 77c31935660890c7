"""Names in a hello, one behind the other: size 1 | UTF-8."""

from __future__ import annotations

from dledger.errors import MalformedFrame

NAME_BYTES_MAX = 255


def pack_name(name: str) -> bytes:
    """Raises ValueError for a name that is empty or too long."""
    raw = name.encode()
    if not 0 < len(raw) <= NAME_BYTES_MAX:
        raise ValueError(f"the name {name!r} must have 1 to {NAME_BYTES_MAX} bytes")
    return bytes((len(raw),)) + raw


def read_names(head: bytes, offset: int) -> list[str]:
    """All names from `offset` on. Raises MalformedFrame."""
    names = []
    try:
        while offset < len(head):
            behind = offset + 1 + head[offset]
            if behind > len(head):
                raise MalformedFrame("a name in a hello is cut off")
            names.append(head[offset + 1 : behind].decode())
            offset = behind
    except UnicodeDecodeError as error:
        raise MalformedFrame("a name in a hello is no text") from error
    return names
