"""Named places at which a node can be made to die: before, inside and after each write and sync of
each of its files, and before and after each kind of message leaves it.

    data.write.torn      half of a record's bytes are written, then SIGKILL
    hardstate.sync.after the vote is on disk, and nobody has been told
    send.VoteReply.after the vote has been told

Nothing of this is in the product: while a failpoint is armed, the methods of its file and transport
classes are replaced in this process. Only `chaos.live.node_main` imports this module.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from commitlog.files import Buffer, OsFile, OsFileSystem
from dledger.core import messages
from dledger.runtime.transport import Transport

#: File → how its path is known.
PLACES: dict[str, Callable[[Path], bool]] = {
    "data": lambda path: path.parent.name == "data" and path.parent.parent.name != "staging",
    "index": lambda path: path.parent.name == "index" and "dledger-" in path.parent.parent.name,
    "hardstate": lambda path: path.name == "hardstate",
    "flushmark": lambda path: path.name == "flushmark",
    "truncate": lambda path: path.name == "truncate",
    "queue": lambda path: "consumequeue" in path.parts,
}
#: Files that can be made from the log again: nothing waits for their syncs.
UNSYNCED = ("index", "queue")
#: Of the service: it forwards reads, so the two messages of a follower's read index are not sent.
MESSAGES = tuple(
    kind.__name__
    for kind in (
        messages.VoteRequest,
        messages.VoteReply,
        messages.AppendEntries,
        messages.AppendReply,
        messages.Heartbeat,
        messages.HeartbeatReply,
        messages.TimeoutNow,
        messages.SnapshotChunk,
        messages.SnapshotReply,
    )
)
#: Every failpoint; those of rare deeds (truncation, a hand-over) need a fault that leads there.
NAMES: tuple[str, ...] = (
    *(
        f"{place}.{deed}"
        for place in PLACES
        for deed in ("write.before", "write.torn", "write.after", "sync.before", "sync.after")
        if not (place in UNSYNCED and deed.startswith("sync"))
    ),
    *(f"{place}.create.{moment}" for place in ("data", "index") for moment in ("before", "after")),
    *(f"send.{message}.{moment}" for message in MESSAGES for moment in ("before", "after")),
)
HIT_FILE = "chaos-hit"


class Failpoint:
    """One armed failpoint: the process dies at its `after`-th passing (0: the first)."""

    def __init__(self, name: str, after: int, folder: Path) -> None:
        if name not in NAMES:
            raise ValueError(f"there is no failpoint {name!r}")
        self.name = name
        self._left = after
        self._folder = folder
        self._place, self._deed, self._moment = name.split(".")

    def arm(self) -> None:
        """Replace what leads there; for the rest of the process's life."""
        if self._place == "send":
            _patch_send(self)
        elif self._deed == "write":
            _patch_writes(self)
        elif self._deed == "sync":
            _patch_sync(self)
        else:
            _patch_create(self)

    def is_at(self, path: Path) -> bool:
        return PLACES[self._place](path)

    def is_message(self, message: object) -> bool:
        return type(message).__name__ == self._deed

    def passed(self, moment: str) -> bool:
        """Count a passing of `moment`; True when the process shall die here."""
        if moment != self._moment:
            return False
        self._left -= 1
        return self._left < 0

    def die(self) -> None:
        """Leave a proof, then SIGKILL."""
        fd = os.open(self._folder / HIT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, self.name.encode())
        os.kill(os.getpid(), signal.SIGKILL)


def _patch_writes(point: Failpoint) -> None:
    pwrite, pwritev = OsFile.pwrite, OsFile.pwritev

    def around(file: OsFile, write: Callable[[], None], data: Callable[[], bytes], at: int) -> None:
        if not point.is_at(file.path):
            write()
            return
        if point.passed("before"):
            point.die()
        if point.passed("torn"):
            whole = data()
            pwrite(file, whole[: max(1, len(whole) // 2)], at)
            point.die()
        write()
        if point.passed("after"):
            point.die()

    def write_one(self: OsFile, data: Buffer, position: int) -> None:
        around(self, lambda: pwrite(self, data, position), lambda: bytes(data), position)

    def write_parts(self: OsFile, parts: Sequence[Buffer], position: int) -> None:
        if len(parts) == 1:
            write_one(self, parts[0], position)
            return
        around(self, lambda: pwritev(self, parts, position), lambda: b"".join(parts), position)

    _set(OsFile, "pwrite", write_one)
    _set(OsFile, "pwritev", write_parts)


def _patch_sync(point: Failpoint) -> None:
    datasync = OsFile.datasync

    def sync(self: OsFile) -> None:
        here = point.is_at(self.path)
        if here and point.passed("before"):
            point.die()
        datasync(self)
        if here and point.passed("after"):
            point.die()

    _set(OsFile, "datasync", sync)


def _patch_create(point: Failpoint) -> None:
    create = OsFileSystem.create

    def made(self: OsFileSystem, path: Path, size: int, **rest: Any) -> OsFile:
        here = point.is_at(path)
        if here and point.passed("before"):
            point.die()
        file = create(self, path, size, **rest)
        if here and point.passed("after"):
            point.die()
        return file

    _set(OsFileSystem, "create", made)


def _patch_send(point: Failpoint) -> None:
    send = Transport.send

    def sent(self: Transport, to: Any, message: Any) -> None:
        here = point.is_message(message)
        if here and point.passed("before"):
            point.die()
        send(self, to, message)
        if here and point.passed("after"):
            point.die()

    _set(Transport, "send", sent)


def _set(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
