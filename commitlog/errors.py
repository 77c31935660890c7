"""The errors of the store, as one tree.

    StoreError
    ├─ StoreUsageError          the caller's mistake; nothing was touched
    │  ├─ MessageTooLarge       body, properties or topic over its limit
    │  └─ StoreConfigError      a setting is impossible, or does not fit the files that exist
    ├─ StoreLocked              another process has this store open
    ├─ StoreLayoutError         a stray file, a wrong size or a gap; nothing was guessed or changed
    ├─ StoreDamaged             bytes on disk differ from the ones that were written
    └─ StoreFailed              the disk refused (EIO, ENOSPC, read-only); the store writes no more

Every text says what happened and one thing to try (`advice.py`).
"""

from __future__ import annotations

from commitlog.advice import Advised


class StoreError(Advised):
    """Base of every error of this package."""

    retriable = False


class StoreUsageError(StoreError):
    """The call itself is wrong, so it would fail each time; the store is unchanged."""

    advice = "correct the call, nothing was written"


class MessageTooLarge(StoreUsageError):
    """A part of a message is over its limit.

    Attributes:
        part: which part ("body", "properties", "topic", "record").
        size: its size in bytes.
        size_max: the limit in bytes.
    """

    def __init__(self, part: str, size: int, size_max: int) -> None:
        self.part, self.size, self.size_max = part, size, size_max
        super().__init__(
            f"the {part} has {size} bytes and the limit is {size_max}; "
            "send less or raise the limit on every node"
        )


class StoreConfigError(StoreUsageError):
    """A setting is impossible by itself, beside another one, or beside the files that exist."""

    advice = "correct the setting"


class StoreLocked(StoreError):
    """Another process holds the store's lock."""

    advice = "stop the other process, or give a copy of the folder"
    retriable = True


class StoreLayoutError(StoreError):
    """The folder holds a file that a store folder never holds; the folder is unchanged."""

    advice = "restore the folder or name another one, nothing in it was changed"


class StoreDamaged(StoreError):
    """Bytes at a known place are not the bytes that were written there.

    Attributes:
        path: the file, or "" when only the position is known.
        position: byte address in the log of the first damaged byte (or record).
        reason: what was expected and what was found.
    """

    advice = "keep the files as they are and restore this range from a healthy replica or a backup"

    def __init__(self, reason: str, *, path: str = "", position: int = -1) -> None:
        self.reason, self.path, self.position = reason, path, position
        where = f" in {path}" if path else ""
        super().__init__(f"damage at position {position}{where}: {reason}; {self.advice}")


class StoreFailed(StoreError):
    """The operating system refused a write, a read or a sync; the call may be half done."""

    advice = "free or repair the disk, then open the store again"
