"""Named places at which a node can be made to die: before, inside and after each thing that it does
to its files, and before and after each kind of message leaves it (failpoint_names.py).

    data.write.torn      half of a record's bytes are written, then SIGKILL
    hardstate.sync.after the vote is on disk, and nobody has been told
    send.VoteReply.after the vote has been told

Nothing of this is in the product: while a failpoint is armed, the methods of its file and transport
classes are replaced in this process. Only `chaos.live.node_main` imports this module.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from chaos.live import failpoint_names as names
from chaos.live.failpoint_names import NAMES, folder_of, place_of
from cluster.local import endings
from commitlog.files.content import Content, joined
from commitlog.files.system import Buffer, OsFile, OsFileSystem
from dledger.runtime.transport import Transport

HIT_FILE = "chaos-hit"
MESSAGE_FILE = "chaos-hit-message"  # of a send: to whom, and the message's plain fields, as JSON
PASSED_FILE = "chaos-passed"  # a line for each place that was passed, in the order of first times


class Failpoint:
    """One armed failpoint: the process dies at its `after`-th passing (0: the first).

    Without a name nothing dies, and what is passed is written down (PASSED_FILE).
    """

    def __init__(self, name: str, after: int, folder: Path) -> None:
        if name and name not in NAMES:
            raise ValueError(f"there is no failpoint {name!r}")
        self.name = name
        self._left = after
        self._folder = folder
        self._seen: set[str] = set()

    def arm(self) -> None:
        """Replaces the functions that lead to this failpoint, until the process ends."""
        _patch_files(self)
        _patch_names(self)
        _patch_send(self)

    def at(self, action: str, moment: str) -> bool:
        """Count a passing; True when the process shall die here. `action`: "data.write"."""
        here = f"{action}.{moment}"
        if not self.name and here not in self._seen:
            self._seen.add(here)
            with (self._folder / PASSED_FILE).open("a") as file:
                file.write(here + "\n")
        if here != self.name:
            return False
        self._left -= 1
        return self._left < 0

    @contextlib.contextmanager
    def around(self, action: str, message: Mapping[str, object] | None = None) -> Iterator[None]:
        """Dies before or after the enclosed action if this failpoint names it. Actions with an
        empty place (their name begins with ".") have no failpoint."""
        if action.startswith("."):
            yield
            return
        if self.at(action, "before"):
            self.die(message)
        yield
        if self.at(action, "after"):
            self.die(message)

    def die(self, message: Mapping[str, object] | None = None) -> None:
        """Leave a proof, then SIGKILL."""
        if message is not None:
            (self._folder / MESSAGE_FILE).write_text(json.dumps(message))
        fd = os.open(self._folder / HIT_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, self.name.encode())
        endings.ended("SIGKILL", f"fault injection: failpoint {self.name}", by="itself")
        os.kill(os.getpid(), signal.SIGKILL)


def _patch_files(point: Failpoint) -> None:
    pwrite, pwritev, datasync = OsFile.pwrite, OsFile.pwritev, OsFile.datasync

    def write(file: OsFile, whole: Callable[[], bytes], do: Callable[[], None], at: int) -> None:
        action = f"{place_of(file.path)}.{names.WRITE}"
        with point.around(action):
            if not action.startswith(".") and point.at(action, "torn"):
                data = whole()
                pwrite(file, data[: max(1, len(data) // 2)], at)
                point.die()
            do()

    def write_one(self: OsFile, data: Buffer, position: int) -> None:
        write(self, lambda: bytes(data), lambda: pwrite(self, data, position), position)

    def write_parts(self: OsFile, parts: Sequence[Buffer], position: int) -> None:
        if len(parts) == 1:
            write_one(self, parts[0], position)
            return
        write(self, lambda: b"".join(parts), lambda: pwritev(self, parts, position), position)

    def sync(self: OsFile) -> None:
        with point.around(f"{place_of(self.path)}.{names.SYNC}"):
            datasync(self)

    _set(OsFile, "pwrite", write_one)
    _set(OsFile, "pwritev", write_parts)
    _set(OsFile, "datasync", sync)


def _patch_names(point: Failpoint) -> None:
    create, remove = OsFileSystem.create, OsFileSystem.remove
    write_atomic, sync_dir = OsFileSystem.write_atomic, OsFileSystem.sync_dir

    def made(self: OsFileSystem, path: Path, size: int, **rest: Any) -> OsFile:
        with point.around(f"{place_of(path)}.{names.CREATE}"):
            return create(self, path, size, **rest)

    def replaced(
        self: OsFileSystem, path: Path, data: Content, *, staging: Path | None = None
    ) -> None:
        action = f"{place_of(path)}.{names.REPLACE}"
        with point.around(action):
            if not action.startswith(".") and point.at(action, "torn"):
                aside = (staging or path.parent) / f"{path.name}.tmp"
                whole = joined(data)
                aside.write_bytes(whole[: max(1, len(whole) // 2)])
                point.die()
            write_atomic(self, path, data, staging=staging)

    def removed(self: OsFileSystem, path: Path) -> None:
        with point.around(f"{place_of(path)}.{names.REMOVE}"):
            remove(self, path)

    def synced(self: OsFileSystem, path: Path) -> None:
        with point.around(f"{folder_of(path)}.{names.LIST}"):
            sync_dir(self, path)

    _set(OsFileSystem, "create", made)
    _set(OsFileSystem, "write_atomic", replaced)
    _set(OsFileSystem, "remove", removed)
    _set(OsFileSystem, "sync_dir", synced)


def _patch_send(point: Failpoint) -> None:
    send = Transport.send

    def sent(self: Transport, to: Any, message: Any) -> None:
        action = f"send.{type(message).__name__}"
        plain = {"to": to, **_plain(message)} if point.name.startswith(f"{action}.") else None
        with point.around(action, plain):
            send(self, to, message)

    _set(Transport, "send", sent)


def _plain(message: Any) -> dict[str, object]:
    """The fields of a message that are numbers, strings or truth values."""
    found = {field.name: getattr(message, field.name) for field in fields(message)}
    return {name: one for name, one in found.items() if isinstance(one, (int, str))}


def hold_syncs(seconds: float) -> None:
    """Makes every sync of this process wait until `seconds` from now have passed, so that its
    writes are still unsynced when its power goes."""
    datasync, end = OsFile.datasync, time.monotonic() + seconds

    def held(self: OsFile) -> None:
        time.sleep(max(0.0, end - time.monotonic()))
        datasync(self)

    _set(OsFile, "datasync", held)


def _set(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
