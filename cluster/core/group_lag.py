"""Lag of consumer groups, as the leader tells monitors."""

from __future__ import annotations

from typing import NamedTuple


class GroupLag(NamedTuple):
    """One group in one topic: messages that wait, and seconds since the oldest was stored."""

    group: str
    topic: str
    messages: int
    seconds: float


class Lags(NamedTuple):
    """The pairs that are shown, most messages first, and the number of pairs that are left out."""

    rows: tuple[GroupLag, ...] = ()
    left_out: int = 0
