"""File names of a virtual disk: as a running process sees them, and as a power cut would leave
them.

    seen      name → file, as `open` and `list` find it
    durable   name → file after a power cut now
    pending   changes of names that no `sync_dir` has covered yet, oldest first

A change is atomic (a rename is never half done), and a power cut keeps any subset of the pending
ones that respects the order of changes to one name. That is weaker than a journal gives, so code
that is right here does not lean on one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class Inode:
    """Content of one file.

    `data` is what reads see, `durable` what a power cut leaves at least, `pending` the writes in
    between, as (number, position, bytes), oldest first.
    """

    __slots__ = ("data", "durable", "modified_at", "pending")

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.durable = bytearray(size)
        self.pending: list[tuple[int, int, bytes]] = []
        self.modified_at = 0.0


@dataclass(frozen=True, slots=True)
class NameChange:
    """`target` now names `inode` (None: it is deleted), and `source`, if given, no longer does."""

    target: str
    inode: Inode | None
    source: str | None = None

    def touches(self, name: str) -> bool:
        """True if the change makes or removes this name."""
        return name == self.target or name == self.source

    def apply(self, names: dict[str, Inode]) -> None:
        """Makes the change in a table of names: create, rename or remove."""
        if self.source is not None:
            names.pop(self.source, None)
        if self.inode is None:
            names.pop(self.target, None)
        else:
            names[self.target] = self.inode


@dataclass(slots=True)
class Names:
    """The name table of one disk. Names are absolute paths as text."""

    seen: dict[str, Inode] = field(default_factory=dict)
    durable: dict[str, Inode] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)
    folders: set[str] = field(default_factory=lambda: {"/"})

    def change(self, change: NameChange) -> None:
        """Makes the change for the running process; a power cut may still undo it."""
        change.apply(self.seen)
        self.pending.append(change)

    def sync(self, folder: str) -> None:
        """Make changes in `folder` durable, with every earlier change they depend on."""
        if not self.pending:
            return
        wanted: set[str] = set()
        kept: list[NameChange] = []
        chosen: list[NameChange] = []
        for change in reversed(self.pending):
            names = {change.target} if change.source is None else {change.target, change.source}
            if names & wanted or any(parent(name) == folder for name in names):
                wanted |= names
                chosen.append(change)
            else:
                kept.append(change)
        for change in reversed(chosen):
            change.apply(self.durable)
        self.pending = kept[::-1]

    def lose(self, name: str) -> None:
        """Deletes the file in a way that survives every crash."""
        self.seen.pop(name, None)
        self.durable.pop(name, None)
        self.pending = [change for change in self.pending if not change.touches(name)]

    def cut(self, keep: Callable[[], bool]) -> None:
        """Power cut: each pending change survives when `keep()` says so and its past did."""
        dropped: list[NameChange] = []
        for change in self.pending:
            names = [change.target] if change.source is None else [change.target, change.source]
            if any(old.touches(name) for old in dropped for name in names) or not keep():
                dropped.append(change)
            else:
                change.apply(self.durable)
        self.pending = []
        self.seen = dict(self.durable)

    def children(self, folder: str) -> list[str]:
        """Names directly in the folder, sorted."""
        prefix = folder if folder.endswith("/") else folder + "/"
        names = [name for name in (*self.seen, *self.folders) if name.startswith(prefix)]
        return sorted({name[len(prefix) :].split("/", 1)[0] for name in names} - {""})


def parent(name: str) -> str:
    """The folder of a name; / for a name at the top."""
    return name.rpartition("/")[0] or "/"
