"""The record that stands in front of the next change: the audit entry of the request being served.

    serving(source) ─► [ write(change) ─► take() ─► entry, change: one batch, in this order ]

So no change of an audited request is in the log without its entry before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from cluster.core.internal_topics import StateRecord

Source = Callable[[], StateRecord | None]


class InFront:
    """Set while a step of an audited request runs, which is within one turn."""

    def __init__(self) -> None:
        self._source: Source | None = None

    @contextlib.contextmanager
    def serving(self, source: Source) -> Iterator[None]:
        """`source` gives the entry once, and None after that."""
        before, self._source = self._source, source
        try:
            yield
        finally:
            self._source = before

    def take(self) -> list[StateRecord]:
        """The entry of the request being served, unless it is in the log."""
        record = None if self._source is None else self._source()
        return [] if record is None else [record]
