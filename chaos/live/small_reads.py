"""Records values that a node's own readers refused, where the node itself does not report it:
`<node>/chaos-reads.jsonl`.

    {"file": "hardstate", "slots": [17, null], "went_by": 17}
                                                 sequence of each slot, null: not valid; and of the
                                                 value that its reader took, 0: none
    {"file": "dispatched", "valid": false}       `state.ckpt` the same
    {"file": "index", "entry": 4711}             its slot was refused, and made anew from the log

Small files are written again as soon as they are read, and nothing counts that one slot of a pair
was rotten, or that a read met a bad slot of the index: what stands on the disk afterwards cannot
tell whether anybody noticed.

As with failpoints nothing of this is in the product: `chaos.live.node_main` calls `write_down`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.broker.kernel.apply import checkpoint
from commitlog.dispatch import dispatch_mark
from commitlog.dispatch.dispatch_mark import DispatchMark
from commitlog.files.system import File, FileSystem
from commitlog.records.record import RecordHeader
from dledger.durable import double_slot
from dledger.durable.double_slot import SLOT_SIZE, DoubleSlot
from dledger.log.cold import ColdReader

FILE = "chaos-reads.jsonl"
INDEX = "index"


def write_down(folder: Path) -> None:
    """From now on each such reading in this process is a line in `folder`."""
    _slots_of(folder)
    _whole_files_of(folder)
    _entries_of(folder)


def _slots_of(folder: Path) -> None:
    opened = DoubleSlot.__init__

    def open_slots(self: DoubleSlot, file: File) -> None:
        opened(self, file)
        found = [double_slot.decode_slot(file.pread(SLOT_SIZE, at)) for at in (0, SLOT_SIZE)]
        slots = [None if slot is None else slot[0] for slot in found]
        _write(folder, {"file": file.path.name, "slots": slots, "went_by": self.sequence})

    _set(DoubleSlot, "__init__", open_slots)


def _whole_files_of(folder: Path) -> None:
    decoded, loaded = dispatch_mark.decode_mark, checkpoint.load

    def decode_mark(data: bytes) -> DispatchMark | None:
        found = decoded(data)
        _write(folder, {"file": dispatch_mark.NAME, "valid": found is not None})
        return found

    def load(files: FileSystem, path: Path, restore: Callable[[bytes], None]) -> bool:
        is_there = files.exists(path)
        found = loaded(files, path, restore)
        if is_there:
            _write(folder, {"file": path.name, "valid": found})
        return found

    _set(dispatch_mark, "decode_mark", decode_mark)
    _set(checkpoint, "load", load)


def _entries_of(folder: Path) -> None:
    repaired = ColdReader._rewrite_slots

    def repair(self: ColdReader, index: int) -> RecordHeader:
        _write(folder, {"file": INDEX, "entry": index})
        return repaired(self, index)

    _set(ColdReader, "_rewrite_slots", repair)


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """Returns the rows about the file `name`, oldest first."""
    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be half written
            found.append(json.loads(line))
    return [row for row in found if row["file"] == name]


def forget(folder: Path) -> None:
    """The next process of this node begins with an empty file."""
    (folder / FILE).unlink(missing_ok=True)


def _write(folder: Path, row: dict[str, Any]) -> None:
    # A process without descriptors (the kind `squeeze`) goes on as if nobody listened.
    with contextlib.suppress(OSError), (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _set(owner: object, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
