"""Lag of consumer groups, as the leader tells monitors."""

from __future__ import annotations

from typing import NamedTuple


class GroupLag(NamedTuple):
    """One group in one topic: messages that wait, and seconds since the oldest was stored.

    `in_flight`: messages that consumers of the group have popped and not acknowledged, which do not
    wait any more.
    """

    group: str
    topic: str
    messages: int
    seconds: float
    in_flight: int = 0


class Lags(NamedTuple):
    """The pairs that are shown, most messages first, and the number of pairs that are left out."""

    rows: tuple[GroupLag, ...] = ()
    left_out: int = 0
