"""31014, 31015: one replica reads its own log for damage; replicas are compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScrubLogRequest:
    """`start`: begin a pass now, unless one is under way; else only tell how far it is."""

    start: bool = False
    bname: str | None = None


@dataclass(frozen=True, slots=True)
class VerifyLogRequest:
    """Entries `first`..`last` are read from the disk and verified; an answer may cover fewer."""

    first: int
    last: int
    bname: str | None = None
