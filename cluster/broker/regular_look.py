"""Looks at a value again and again, and says when it is another one than at the look before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from dledger.runtime.owned import Owned

T = TypeVar("T")


class RegularLook(Generic[T]):
    """Every `seconds` of the event loop, from `start` to `stop`. `told`: the value found last."""

    def __init__(
        self,
        owned: Owned,
        seconds: float,
        look: Callable[[], T],
        *,
        before: T,
        changed: Callable[[], None],
    ) -> None:
        """`before`: the value that no look has to tell of."""
        self._owned, self._seconds = owned, seconds
        self._look, self._changed = look, changed
        self.told = before
        self._stopped = False

    def start(self) -> None:
        """Look now, and from now on."""
        if self._stopped:
            return
        found = self._look()
        if found != self.told:
            self.told = found
            self._changed()
        self._owned.call_later(self._seconds, self.start)

    def stop(self) -> None:
        """Look no more."""
        self._stopped = True
