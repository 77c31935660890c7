"""Cursors: where a leader begins the next pop of a queue, ahead of the applied state (R9).

    next     first offset that nobody was given in this leadership
    logged   what the log says, or will say once what is on its way is applied
    pending  how many of those are on their way

Lost with the leadership: the next one begins at the applied offset, which every checkpoint moved.
When nothing is on its way and the applied offset is behind, an administrator moved it, and the
cursor follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.core.pop.records import NOT_KNOWN, Place


@dataclass(slots=True)
class Cursor:
    """The cursor of one queue for one group; fields as in the module's text."""

    next: int
    logged: int
    pending: int = 0

    def taken(self, to: int, logged: int) -> None:
        """Messages below `to` are given out, and a record that says `logged` is on its way."""
        self.next, self.logged = max(self.next, to), logged
        self.pending += 1

    def settled(self) -> None:
        """That record is applied, or will not be."""
        self.pending -= 1

    def rewind(self, start: int, logged: int) -> None:
        """Give messages from `start` on again: their taking was certainly not logged."""
        self.next, self.logged = min(self.next, start), min(self.logged, logged)


class PopCursors:
    """The cursors of one leader. Emptied whenever a leadership begins or ends."""

    def __init__(self) -> None:
        self._rows: dict[Place, Cursor] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, place: Place, applied: int | None, initial: int) -> Cursor:
        """The cursor; `initial`: where a group begins that never committed an offset here."""
        cursor = self._rows.get(place)
        if cursor is None:
            first = initial if applied is None else applied
            logged = NOT_KNOWN if applied is None else applied
            cursor = self._rows[place] = Cursor(first, logged)
        elif applied is not None and applied > cursor.logged:
            cursor.next, cursor.logged = max(cursor.next, applied), applied
        elif applied is not None and applied < cursor.logged and not cursor.pending:
            cursor.next = cursor.logged = applied
        return cursor

    def known(self, place: Place) -> Cursor | None:
        """The cursor of a place; None if this leadership has not made one."""
        return self._rows.get(place)

    def drop(self) -> None:
        """Leadership ended."""
        self._rows.clear()
