"""Kinds 15–17: rotten bytes, a region of the past, a lost folder; on one node, undone at the end.

Fault atlas: never more than a minority of the copies of one entry, so somebody keeps a good one.
Only what a node must notice is hit (regions.py). While the damage is there the node may refuse, or
serve from what is whole; it must not vote, lead or answer as if nothing had been. The fault counts
when the node *noticed* (noticing.py). Nobody waits for its next look: it is asked to scrub and to
save now. Damage that is gone and that nobody had read was overwritten: no effect.

The operator then puts the damaged bytes back and nothing else: a whole folder of an earlier time
would take back votes and acknowledgements that were given meanwhile.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from chaos.drivers import regions
from chaos.drivers.hooks import ask
from chaos.drivers.noticing import Patch, proof, refusal, taken
from chaos.drivers.regions import Region
from chaos.drivers.stage import POLL_SECONDS, Fault, Stage, last_line
from chaos.drivers.words import Words
from chaos.live import node_hooks, small_reads
from dledger.log.slots import SLOT_SIZE

FLIPS = 3
PAGE = 4096
CHUNK_BYTES = PAGE
NOTICE_SECONDS_MAX = 15.0
GONE_SECONDS_MAX = 3.0  # what is gone from the disk may be counted a little later
EARLIER_SECONDS_MAX = 5.0  # until the region that was copied is another one, and on disk
AWAY = "set-aside-by-chaos"
NO_FOLDER = "was never formatted for a node"  # what a broker says whose folder is gone
#: What bit rot hits when it is drawn. Queues and states that were sent are read only when somebody
#: asks for them: a node that nobody asks cannot notice, so they are hit by name only.
ROTTING = (regions.LOG, regions.INDEX, regions.SLOT, regions.STATE)
EARLIER_TRIES_MAX = 4
EARLIER_OF = ("log", "index", "flushmark", "hardstate")


def _data(stage: Stage) -> Path:
    return stage.folder(stage.node) / "data"


async def _nothing() -> str:
    return "it ran"


async def _with_damage(
    stage: Stage,
    patches: Sequence[Patch],
    said: str,
    meanwhile: Callable[[], Awaitable[str]] = _nothing,
) -> str:
    """Starts the stopped node on damaged bytes, observes its reaction and restores the old bytes.

    "" when it did not notice, or `meanwhile` did nothing.
    """
    folder = stage.folder(stage.node)
    small_reads.forget(folder)
    words = Words(folder)
    for patch in patches:
        patch.apply()
    try:
        await stage.start(stage.node)
        refused = await stage.started_or_refused(stage.node)
        done = "" if refused else await meanwhile()
        noticed = refusal(words) if refused else await _noticed(stage, patches, words)
        stage.notes |= {"unnoticed": "", "overwritten": ""}  # of this try alone
        if not noticed:
            note, why = _why_not(stage, patches, words)
            stage.notes[note] = f"{said}; {why}"
        await stage.hold()
    finally:
        await stage.kill([stage.node])
        for patch in reversed(patches):
            patch.undo()
    await stage.start(stage.node)
    if refused and noticed:
        return f"{said}; it refused to start: {noticed}"
    return f"{said}; {done}: {noticed}" if noticed and done else ""


def _why_not(stage: Stage, patches: Sequence[Patch], words: Words) -> tuple[str, str]:
    """Returns (name of the note, reason) for damage that the node did not notice."""
    if not stage.running(stage.node):
        return "unnoticed", f"the node ended and does not say why, but: {words.last()}"
    if took := taken(stage.folder(stage.node), patches[0]):
        return "unnoticed", took
    if any(patch.is_there() for patch in patches):
        return "unnoticed", "it stands there still"
    return "overwritten", "overwritten before anybody read it"


async def _noticed(stage: Stage, patches: Sequence[Patch], words: Words) -> str:
    """Returns the evidence that the running node found the damage and the state of the damaged
    bytes; "" if it did not in time."""
    end = time.monotonic() + NOTICE_SECONDS_MAX
    seen = ""
    while time.monotonic() < end:
        for what in ("scrub", "sweep"):
            await ask(stage, stage.node, **{what: True})
        node_hooks.forget(stage.folder(stage.node))
        repaired = sum(patch.is_repaired() for patch in patches)
        there = sum(patch.is_there() for patch in patches)
        ended = not stage.running(stage.node)  # asked before its last words are read
        seen = await proof(stage, patches, words)
        if ended:
            return seen and f"it stopped itself; {seen}"
        if seen and (repaired or not there):
            other = len(patches) - repaired - there
            stands = f"{repaired} of {len(patches)} places are as before, {other} were written anew"
            return f"{stands}; {seen}"
        if not there:
            end = min(end, time.monotonic() + GONE_SECONDS_MAX)
        await asyncio.sleep(5 * POLL_SECONDS)
    return seen


def _choose(stage: Stage, kinds: Sequence[str]) -> Region:
    """One region of one of these kinds, each kind with the same chance."""
    found = [region for region in regions.regions(_data(stage)) if region.kind in kinds]
    kind = stage.random.choice(sorted({region.kind for region in found}))
    return stage.random.choice([region for region in found if region.kind == kind])


async def bit_rot(stage: Stage, kinds: Sequence[str] = ROTTING) -> str:
    """Flips bits in a file: in a record, an index slot, the vote, the flush mark or a saved
    state.
    """
    await stage.kill([stage.node])
    return await _flip(stage, _choose(stage, kinds), _nothing)


async def rotten_log(stage: Stage, meanwhile: Callable[[], Awaitable[str]]) -> str:
    """Flip bits in the log itself; `meanwhile` is done while the node has them."""
    await stage.kill([stage.node])
    return await _flip(stage, _choose(stage, (regions.LOG,)), meanwhile)


async def _flip(stage: Stage, region: Region, meanwhile: Callable[[], Awaitable[str]]) -> str:
    data, size = region.path.read_bytes(), region.end - region.begin
    positions = [region.begin + at for at in stage.random.sample(range(size), min(FLIPS, size))]
    patches = [
        Patch(
            region.path,
            at,
            data[at : at + 1],
            bytes([data[at] ^ 1 << stage.random.randrange(8)]),
            region.kind,
        )
        for at in positions
    ]
    said = f"{len(patches)} bits flipped in {region.name}"
    return await _with_damage(stage, patches, said, meanwhile)


async def rollback(stage: Stage) -> str:
    """A region is as it was before a write that was acknowledged: a lost or misdirected write."""
    way = stage.random.choice(("earlier", "earlier", "zeros", "neighbour"))
    if way == "earlier":
        return await earlier(stage, stage.random.choice(EARLIER_OF))
    await stage.kill([stage.node])
    region = _choose(stage, (regions.LOG, regions.INDEX, regions.SLOT))
    data = region.path.read_bytes()
    length = min(CHUNK_BYTES, region.end - region.begin)
    at = stage.random.randrange(region.begin, region.end - length + 1)
    before, after, said = data[at : at + length], bytes(length), "was never written"
    if way == "neighbour" and region.end - region.begin > length:
        other = stage.random.randrange(region.begin, region.end - length + 1)
        after, said = data[other : other + length], f"holds the bytes of {other}"
    if after == before:
        after = bytes(byte ^ 0xFF for byte in before)
    patch = Patch(region.path, at, before, after, region.kind)
    return await _with_damage(stage, [patch], f"{length} bytes of {region.name} at {at}: {said}")


async def earlier(stage: Stage, what: str) -> str:
    """Copies a chunk while the node writes, and puts the copy back when later writes are on the
    disk.

    Every byte of it was once right: a log whose page ends earlier, a slot with a former mark or
    vote. "" when nothing was written there in time.
    """
    data, slot = _data(stage), stage.random.choice((0, PAGE))
    for _ in range(EARLIER_TRIES_MAX):
        place = _being_written(data, what, slot)
        old = place.read()
        if what == "hardstate":  # a vote is written in an election only, and slots take turns
            await ask(stage, await stage.arena.leader(), transfer="")
            for node in stage.nodes:
                node_hooks.forget(stage.folder(node))
        is_past = partial(_is_past, data, what, place, old)
        if await stage.until(is_past, EARLIER_SECONDS_MAX) and place.read() != old:
            break  # else its last byte may have been written before it was copied
    await stage.kill([stage.node])
    if what == "index":  # nothing vouches for new slots; a start writes and syncs all of them
        await stage.start(stage.node)
        await stage.up_again(stage.node)
        await stage.kill([stage.node])
    new = place.read()
    if new == old or not is_past(synced=True):
        return ""
    said = f"{len(old)} bytes of {place.name} are as they were earlier"
    kind = {"log": regions.LOG, "index": regions.INDEX}.get(what, regions.SLOT)
    return await _with_damage(stage, [Patch(place.path, place.at, new, old, kind, True)], said)


class _Page(NamedTuple):
    """A page of a file."""

    path: Path
    at: int

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name} at {self.at}"

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.at)
            return file.read(PAGE)


def _being_written(data: Path, what: str, slot: int) -> _Page:
    """Returns the page that the node writes next; of two slots the one at `slot`."""
    folder, mark = regions.log_folder(data), regions.mark_of(data)
    if what in ("flushmark", "hardstate"):
        return _Page(folder / what, slot)
    if what == "log":
        path = _file_with(folder / "data", mark.position)  # the next one may have been made already
        end = len(path.read_bytes().rstrip(b"\0"))
        return _Page(path, max(end - 1, 0) // PAGE * PAGE)
    address = mark.index * SLOT_SIZE
    path = _file_with(folder / "index", address)
    return _Page(path, (address - int(path.name)) // PAGE * PAGE)


def _file_with(folder: Path, address: int) -> Path:
    return max(path for path in folder.iterdir() if int(path.name) <= address)


def _is_past(data: Path, what: str, place: _Page, old: bytes, *, synced: bool = False) -> bool:
    """Whether something else is there now, and the node has noted that it is on disk.

    `synced`: of the index, too; that comes with a start, until then the mark is behind.
    """
    if what in ("flushmark", "hardstate"):
        return place.read() != old
    mark = regions.mark_of(data)
    slots = min(mark.slots, mark.index) if synced else mark.index
    address = mark.position if what == "log" else slots * SLOT_SIZE
    return address >= int(place.path.name) + place.at + PAGE


async def wipe(stage: Stage) -> str:
    """The data is lost: the node must refuse, not begin anew under its old name."""
    await stage.kill([stage.node])
    data = stage.folder(stage.node) / "data"
    away = data / AWAY
    _move_content(data, away)
    try:
        await stage.start(stage.node)
        refused = await stage.started_or_refused(stage.node)
        if not refused and await stage.is_ready(stage.node):
            stage.notes |= forgot("it started without its data, under its old name")
        await stage.hold()
    finally:
        await stage.kill([stage.node])
        clear(data)
        _move_content(away, data)
        away.rmdir()
    words = last_line(stage)
    await stage.start(stage.node)
    # Any other end is none of its refusals: it may have died of something else.
    said = refused and NO_FOLDER in words
    return f"refused to start without its data: {words[:200]}" if said else ""


def forgot(said: str) -> dict[str, object]:
    """Returns the notes for a node that came back without entries that it had acknowledged (R6): an
    anomaly."""
    return {"broken": said, "breaks": "amnesia"}


def _move_content(source: Path, target: Path) -> None:
    """Moves the files, but not the folder itself, which may be a mount point; so they stay in their
    file system, where sparse files remain sparse.
    """
    target.mkdir(exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.name != AWAY:
            path.rename(target / path.name)


def clear(folder: Path) -> None:
    """Deletes all of the folder but the files that were set aside."""
    for path in folder.iterdir():
        if path.name == AWAY:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


FAULTS: dict[str, Fault] = {"bit-rot": bit_rot, "rollback": rollback, "wipe": wipe}
