"""Kinds 15–17: rotten bytes, a region of the past, a lost folder; on one node, undone at the end.

Fault atlas: never more than a minority of the copies of one entry, so somebody keeps a good one.
Only what a node must notice is hit: the older half of the log, which its flush mark covers (R1),
and its small files. While the damage is there the node may refuse, or serve from what is whole; it
must not vote, lead or answer as if nothing had been.

The operator then puts the damaged bytes back and nothing else: a whole folder of an earlier time
would take back votes and acknowledgements that were given meanwhile.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.drivers.stage import Fault, Stage
from cluster.local import processes

FLIPS = 3
CHUNK_BYTES = 4096
AWAY = "set-aside-by-chaos"


@dataclass(frozen=True, slots=True)
class Patch:
    """Bytes of a file, before and after the damage."""

    path: Path
    position: int
    before: bytes
    after: bytes

    def apply(self) -> None:
        self._write(self.after)

    def undo(self) -> bool:
        """Put the old bytes back, unless somebody has written there since."""
        if not self.path.exists() or self._read() != self.after:
            return False
        self._write(self.before)
        return True

    def _read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.position)
            return file.read(len(self.after))

    def _write(self, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.position)
            file.write(data)


def _files(stage: Stage) -> list[tuple[Path, int]]:
    """(file, bytes that may be hit) of log, index and vote, where there are any."""
    root = stage.folder(stage.node) / "data"
    found = [(path, _used(path) // 2) for path in root.glob("dledger-*/data/*")]
    found += [(path, _used(path)) for path in root.glob("dledger-*/index/*")]
    found += [(path, _used(path)) for path in root.glob("dledger-*/hardstate")]
    return sorted((path, size) for path, size in found if size)


def _used(path: Path) -> int:
    """Bytes up to the last one that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


async def _nothing() -> None: ...


async def _with_damage(
    stage: Stage,
    patches: list[Patch],
    said: str,
    meanwhile: Callable[[], Awaitable[None]] = _nothing,
) -> str:
    """Start the stopped node on damaged bytes, see what it does, put the old ones back."""
    for patch in patches:
        patch.apply()
    try:
        await stage.start(stage.node)
        refused = await stage.started_or_refused(stage.node)
        await meanwhile()
        await stage.hold()
    finally:
        await stage.kill([stage.node])
        undone = sum(patch.undo() for patch in reversed(patches))
    words = _last_words(stage)
    await stage.start(stage.node)
    if refused:
        return f"{said}; it refused to start: {words}"
    return f"{said}; it ran beside it, {len(patches) - undone} of {len(patches)} were written over"


def _last_words(stage: Stage) -> str:
    lines = processes.log_tail(stage.folder(stage.node)).strip().splitlines()
    return lines[-1][:200] if lines else ""


async def bit_rot(stage: Stage) -> str:
    """Flip bits in what a file holds: a record, an index slot, the vote."""
    await stage.kill([stage.node])
    return await _flip(stage, _files(stage), _nothing)


async def rotten_log(stage: Stage, meanwhile: Callable[[], Awaitable[None]]) -> str:
    """Flip bits in the log itself; `meanwhile` is done while the node has them."""
    await stage.kill([stage.node])
    log = [(path, size) for path, size in _files(stage) if path.parent.name == "data"]
    return await _flip(stage, log, meanwhile)


async def _flip(
    stage: Stage, files: list[tuple[Path, int]], meanwhile: Callable[[], Awaitable[None]]
) -> str:
    path, size = stage.random.choice(files)
    data = path.read_bytes()
    positions = stage.random.sample(range(size), min(FLIPS, size))
    patches = [
        Patch(path, at, data[at : at + 1], bytes([data[at] ^ 1 << stage.random.randrange(8)]))
        for at in positions
    ]
    said = f"{len(patches)} bits flipped in {_name(path)}"
    return await _with_damage(stage, patches, said, meanwhile)


async def rollback(stage: Stage) -> str:
    """A region is as it was before a write that was acknowledged: a lost or misdirected write."""
    await stage.kill([stage.node])
    path, size = stage.random.choice(_files(stage))
    data = path.read_bytes()
    length = min(CHUNK_BYTES, size)
    at = stage.random.randrange(size - length + 1)
    before = data[at : at + length]
    if stage.random.random() < 0.5:
        other = stage.random.randrange(size - length + 1)
        after, said = data[other : other + length], f"holds the bytes of {other}"
    else:
        after, said = bytes(length), "was never written"
    if after == before:
        after = bytes(byte ^ 0xFF for byte in before)
    patch = Patch(path, at, before, after)
    return await _with_damage(stage, [patch], f"{length} bytes of {_name(path)} at {at}: {said}")


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


async def wipe(stage: Stage) -> str:
    """The data is lost: the node must refuse, not begin anew under its old name."""
    await stage.kill([stage.node])
    data = stage.folder(stage.node) / "data"
    away = data / AWAY
    _move_content(data, away)
    try:
        await stage.start(stage.node)
        refused = await stage.started_or_refused(stage.node)
        await stage.hold()
    finally:
        await stage.kill([stage.node])
        _clear(data)
        _move_content(away, data)
        away.rmdir()
    words = _last_words(stage)
    await stage.start(stage.node)
    return f"refused to start without its data: {words}" if refused else ""


def _move_content(source: Path, target: Path) -> None:
    """The folder itself may be a mount point and stays; so nothing leaves its file system, where
    sparse files would become whole ones.
    """
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name != AWAY:
            path.rename(target / path.name)


def _clear(folder: Path) -> None:
    """Everything but what was set aside."""
    for path in folder.iterdir():
        if path.name == AWAY:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


FAULTS: dict[str, Fault] = {"bit-rot": bit_rot, "rollback": rollback, "wipe": wipe}
