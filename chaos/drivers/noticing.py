"""Decides if a node noticed damage, by the kind of the damaged place (regions.py); the bytes that
stand there later prove neither.

    log           its counters of damage rose, or it knows of damaged ranges
    index         slots of it were repaired, or a reader refused a slot that was hit
    slot          its reader refused the slot and went by the other one
    state.ckpt    it printed that it cannot be used
    dispatched    its reader refused it
    any           it ended, or never started, or failed, with the words of damage

A place that holds other bytes now while nothing of this was seen was overwritten before it was
read: that is neither noticing nor the lack of it, and the fault has had no effect. Unless its
reader has read it, and took it (`taken`): small files are written anew right after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.drivers import regions
from chaos.drivers.stage import Stage
from chaos.drivers.words import STOPPED, Words
from chaos.live import small_reads
from commitlog.dispatch import dispatch_mark
from dledger.durable.double_slot import SLOT_SIZE, decode_slot
from dledger.log.slots import SLOT_SIZE as ENTRY_SIZE

#: Of the sentences that refuse damage: of the log and its small files, of the vote, of a record.
DAMAGE = (
    "rebuild this replica from its peers",
    "votes of this node are forgotten",
    "damage at position",
)
UNUSABLE = ("cannot be used", "checksum is wrong")  # cluster/broker/kernel/apply/checkpoint.py
#: What the state of repair counts because of a region; queues and sent states are none of its.
COUNTERS = {regions.LOG: ("found", "restored_entries"), regions.INDEX: ("mended_slots",)}


@dataclass(frozen=True, slots=True)
class Patch:
    """Bytes of a file, before and after the damage.

    Attributes:
        kind: of the region that they are in.
        whole: the damage is a value that was whole and right once.
    """

    path: Path
    position: int
    before: bytes
    after: bytes
    kind: str = regions.LOG
    whole: bool = False

    def apply(self) -> None:
        """Writes the damaged bytes at their place. Raises OSError, also if the file is gone."""
        self._write(self.after)

    def undo(self) -> bool:
        """Restores the old bytes, unless the place was written since. Returns True if it did."""
        if not self.is_there():
            return False
        self._write(self.before)
        return True

    def is_there(self) -> bool:
        """True if the place still holds the damaged bytes: they were neither repaired nor
        overwritten."""
        return self.path.exists() and self._read() == self.after

    def is_repaired(self) -> bool:
        """Whether the old bytes stand there again."""
        return self.path.exists() and self._read() == self.before

    def _read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.position)
            return file.read(len(self.after))

    def _write(self, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.position)
            file.write(data)


async def proof(stage: Stage, patches: Sequence[Patch], words: Words) -> str:
    """Returns the evidence that the node noticed the damage; "" while there is none. `patches`: of
    one region."""
    if said := refusal(words):
        return f"it said: {said}"
    status = (await stage.arena.statuses()).get(stage.node)
    if status is not None and _speaks_of_damage(status["failed"]):
        return f"it failed: {status['failed']}"
    folder, patch = stage.folder(stage.node), patches[0]
    if patch.kind == regions.SLOT:
        return _refused_slot(folder, patch)
    if patch.kind == regions.STATE:
        return _refused_state(folder, patch, words)
    if patch.kind == regions.INDEX and (entry := _refused_entry(folder, patches)) is not None:
        return f"its reader refused the slot of entry {entry}"
    return "" if status is None else _counted(status["repair"], patch.kind)


def taken(folder: Path, patch: Patch) -> str:
    """Whether the reader of a small file has read the damage; asked when there is no proof."""
    if patch.kind not in (regions.SLOT, regions.STATE):
        return ""
    rows = small_reads.rows_of(folder, patch.path.name)
    return f"its reader took {patch.path.name} for good" if rows else ""


def refusal(words: Words) -> str:
    """The line in which a node ended because of damage; "" without one, as of a crash."""
    return next((line for part in DAMAGE if (line := words.line(STOPPED, part))), "")


def _speaks_of_damage(text: str) -> bool:
    return any(part in text for part in DAMAGE)


def _counted(repair: Mapping[str, Any], kind: str) -> str:
    """Returns the non-zero counters of the node's repair status since its start, in words; "" if
    all are zero."""
    counted = {name: repair[name] for name in COUNTERS.get(kind, ())}
    if kind == regions.LOG:  # what a start finds is not `found`
        counted["damaged ranges"] = len(repair["damaged"])
    said = ", ".join(f"{name}: {n}" for name, n in counted.items() if n)
    return said and f"it counts {said}"


def _refused_state(folder: Path, patch: Patch, words: Words) -> str:
    if patch.path.name != dispatch_mark.NAME:
        said = words.line(patch.path.name, *UNUSABLE)
        return said and f"it said that {patch.path.name} cannot be used"
    rows = small_reads.rows_of(folder, patch.path.name)
    return f"its reader refused {patch.path.name}" if rows and not rows[0]["valid"] else ""


def _refused_entry(folder: Path, patches: Sequence[Patch]) -> int | None:
    """Returns an entry with an index slot that was damaged and that the node refused; None if there
    is none."""
    for row in small_reads.rows_of(folder, small_reads.INDEX):
        begin = row["entry"] * ENTRY_SIZE
        for patch in patches:
            at = int(patch.path.name) + patch.position
            if begin < at + len(patch.after) and at < begin + ENTRY_SIZE:
                return int(row["entry"])
    return None


def _refused_slot(folder: Path, patch: Patch) -> str:
    rows = small_reads.rows_of(folder, patch.path.name)
    if not rows:
        return ""
    row = rows[0]  # of the opening; what is read later was written by this process
    number = patch.position // SLOT_SIZE
    mine, other = row["slots"][number], row["slots"][1 - number]
    if other is None or row["went_by"] != other:
        return ""
    said = f"slot {number} of {patch.path.name}"
    if patch.whole:  # as valid as the other one, and the older of the two
        was = decode_slot(patch.after)
        met = was is not None and mine == was[0] and mine < other
        return f"its reader went by number {other} and not by {mine}, {said}" if met else ""
    return f"its reader refused {said} and went by the other one" if mine is None else ""
