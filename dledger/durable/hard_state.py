"""Term, vote and incarnation, in a double-slot file (D1, D2, R7).

    payload:  0  8  term
              8  8  incarnation, unsigned
             16  2  length of the vote in bytes, -1 for "nobody"
             18  n  whom this node voted for in that term, UTF-8
           18+n  1  only where this incarnation forgot what the one before had promised (R6): 1

A save counts only when both slots were written and synced, one after the other: a slot that was
revealed to peers may rot, and the other one still knows the vote. A crash in between leaves the old
state or the new one; the new one was not revealed yet.
"""

from __future__ import annotations

import struct
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import HardState, NodeId, Term
from dledger.durable.double_slot import DoubleSlot, read_payload
from dledger.durable.mirrors import Mirrors
from dledger.errors import HardStateLost
from dledger.log.port import SyncTask
from dledger.versions import refuse_longer

FILE_NAME = "hardstate"
_HEAD = struct.Struct(">qQh")
_FORGOT = b"\1"
NODE_ID_SIZE_MAX = 255  # bytes; a node id is a short name in addresses and file names


def encode(state: HardState) -> bytes:
    """The payload of one slot: term, incarnation, vote, and `forgot` when it is set."""
    forgot = _FORGOT if state.forgot else b""
    if state.voted_for is None:
        return _HEAD.pack(state.term, state.incarnation, -1) + forgot
    vote = state.voted_for.encode()
    assert len(vote) <= NODE_ID_SIZE_MAX
    return _HEAD.pack(state.term, state.incarnation, len(vote)) + vote + forgot


def decode(payload: bytes) -> HardState:
    """Raises ValueError or struct.error when the payload is not a hard state, LaterVersion."""
    term, incarnation, length = _HEAD.unpack_from(payload)
    end = _HEAD.size + max(0, length)
    refuse_longer("the hard state", len(payload), end + len(_FORGOT))
    forgot = payload[end:] == _FORGOT
    if length < 0:
        return HardState(Term(term), None, incarnation, forgot)
    vote = payload[_HEAD.size : end]
    if len(vote) != length:
        raise ValueError("the vote is cut short")
    return HardState(Term(term), NodeId(vote.decode()), incarnation, forgot)


def peek(files: FileSystem, folder: Path) -> HardState | None:
    """The hard state of a stopped node, without a write; None when it is lost.

    Raises LaterVersion, OSError.
    """
    payload = read_payload(files, folder / FILE_NAME)
    return None if payload is None else decode(payload)


class SaveTask:
    """Write and sync one slot, then the other."""

    def __init__(self, slots: DoubleSlot, state: HardState) -> None:
        self._slots = slots
        self.state = state
        self.done = False

    def run(self) -> None:
        """Writes the state into both slots, durably; in a thread. Raises OSError."""
        self._slots.write_both(encode(self.state))
        self.done = True


class HardStateFile:
    """`HardStateStore` on a double-slot file. One save at a time."""

    def __init__(self, slots: DoubleSlot, mirrors: Mirrors | None = None) -> None:
        if slots.payload is None:
            slots.close()
            raise HardStateLost(
                "neither slot of the hard state is valid, so the votes of this node are forgotten; "
                "do not start it: replace it as a new node (dledger node replace)"
            )
        self._slots = slots
        self._state = decode(slots.payload)
        self._mirrors = mirrors
        self._task: SaveTask | None = None
        self._tell_mirrors()

    @classmethod
    def open(cls, files: FileSystem, folder: Path, mirrors: Mirrors | None = None) -> HardStateFile:
        """Raises HardStateLost when the file is missing or neither slot is valid."""
        try:
            slots = DoubleSlot.open(files, folder / FILE_NAME)
        except FileNotFoundError as error:
            raise HardStateLost(
                "the hard state file is missing, so the votes of this node are forgotten; "
                "do not start it: replace it as a new node"
            ) from error
        slots.settle()
        return cls(slots, mirrors)

    @classmethod
    def create(
        cls, files: FileSystem, folder: Path, state: HardState, *, staging: Path
    ) -> HardStateFile:
        """Makes the file anew with `state` in both slots, durably, as a folder is formatted."""
        path = folder / FILE_NAME
        return cls(DoubleSlot.create(files, path, encode(state), staging=staging))

    @classmethod
    def remake(
        cls, files: FileSystem, folder: Path, state: HardState, *, staging: Path
    ) -> HardStateFile:
        """Write `state` into both slots, durably, over the rest of the file."""
        path = folder / FILE_NAME
        return cls(DoubleSlot.remake(files, path, encode(state), staging=staging))

    @property
    def state(self) -> HardState:
        """The state of the last finished save, or as opened; no other may be revealed (D1)."""
        return self._state

    def begin_save(self, state: HardState) -> SaveTask:
        """Returns the task that writes `state`; one at a time, and its term is never lower."""
        assert self._task is None, "one save at a time"
        assert state.term >= self._state.term, "a term never goes back (D1)"
        self._task = SaveTask(self._slots, state)
        return self._task

    def finish_save(self, task: SyncTask) -> None:
        """Makes the state of a task that has run the current one; notes it for `currterm`."""
        assert task is self._task, "not the save that is under way"
        assert self._task is not None
        assert self._task.done, "the save did not run to its end"
        self._state, self._task = self._task.state, None
        self._tell_mirrors()

    def close(self) -> None:
        """Closes the file; a save that did not run is lost."""
        self._slots.close()

    def _tell_mirrors(self) -> None:
        if self._mirrors is not None:
            self._mirrors.set_term(self._state)
