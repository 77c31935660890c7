"""The committed entries of a run, and the judge's own reading of them.

    entry ─► session, sequence ─► the first time? ─► a command with its number

Nothing of the machine's own text is used, so a command that the shipping code loses or doubles, or
whose number it gets wrong, on all nodes alike, is found, too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

_HEAD = struct.Struct(">4sBBHqqqq")
_COMMAND, _OPEN, _COMPARE, _COMMANDS = 1, 2, 3, 4
#: Commands of one session that are on their way at once.
_WINDOW = 65_536


class Wanted(NamedTuple):
    """A command that every machine is to apply; `sequence`: its number in its session."""

    number: int
    data: bytes
    session: int
    sequence: int


@dataclass(slots=True)
class _Session:
    lowest: int = 0
    seen: set[int] = field(default_factory=set)


@dataclass(slots=True)
class LogBook:
    """Filled by all processes of a run.

    Attributes:
        entries: those that any process has applied, by index.
        shared: of the entries of several commands that leaders have written, all.
        restored: states of a leader that a machine was given.
        overtaken: of these, those that the end of the process was quicker than.
        led: how often a node began to lead meanwhile.
        waited: how often entries were left to a later turn of a node's loop.
        ended_behind: how often a process ended with such entries.
        led_behind: how often a node began to lead with such entries.
        recalled: commands whose callers got results that a leader's state had kept.
    """

    entries: dict[int, bytes] = field(default_factory=dict)
    shared: set[bytes] = field(default_factory=set)
    restored: int = 0
    overtaken: int = 0
    led: int = 0
    waited: int = 0
    ended_behind: int = 0
    led_behind: int = 0
    recalled: int = 0

    def note(self, index: int, body: bytes) -> str:
        """Note a committed entry; "", or how it differs from that of another process."""
        known = self.entries.setdefault(index, body)
        return "" if known == body else f"{body!r} and {known!r} at {index}"

    def proposed(self, body: bytes) -> None:
        """Note an entry that a leader writes."""
        if is_shared(body):
            self.shared.add(body)

    @property
    def committed_shared(self) -> int:
        """How many entries of several commands were committed."""
        return sum(map(is_shared, self.entries.values()))

    @property
    def cut(self) -> int:
        """How many entries of several commands another leader has cut off, or a power cut."""
        return len(self.shared.difference(self.entries.values()))

    def commands(self) -> list[Wanted]:
        """All commands that are to be applied, in order. Raises ValueError for a gap."""
        if sorted(self.entries) != list(range(len(self.entries))):
            raise ValueError("the log has gaps")
        sessions: dict[int, _Session] = {}
        wanted: list[Wanted] = []
        number = -1
        for index in range(len(self.entries)):
            body = self.entries[index]
            if body[:4] != b"DLRM":
                continue
            _, _, kind, _, _, session, sequence, lowest = _HEAD.unpack_from(body)
            if kind == _OPEN:
                sessions[index] = _Session()
                continue
            known = sessions.get(session)
            begin = max(number + 1, index)
            datas = _commands(body) if kind == _COMMANDS else [body[_HEAD.size :]]
            for at, data in enumerate(datas):
                is_new = known is not None and _is_new(known, sequence + at, lowest)
                if is_new and kind != _COMPARE:
                    wanted.append(Wanted(begin + at, data, session, sequence + at))
                    number = begin + at
            if kind == _COMMANDS:
                number = begin + len(datas) - 1
        return wanted


def is_shared(body: bytes) -> bool:
    """Is it an entry of several commands?"""
    return body[:4] == b"DLRM" and body[5] == _COMMANDS


def _commands(body: bytes) -> list[bytes]:
    at = _HEAD.size + 4
    (count,) = struct.unpack_from(">I", body, _HEAD.size)
    sizes = struct.unpack_from(f">{count}I", body, at)
    at += 4 * count
    found = []
    for size in sizes:
        found.append(body[at : at + size])
        at += size
    return found


def _is_new(session: _Session, sequence: int, lowest: int) -> bool:
    session.lowest = max(session.lowest, lowest)
    is_inside = session.lowest <= sequence < session.lowest + _WINDOW
    if not is_inside or sequence in session.seen:
        return False
    session.seen.add(sequence)
    return True
