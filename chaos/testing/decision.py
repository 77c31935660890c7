"""The decision about a proposal on a simulated node: a future without an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from dledger.errors import DledgerError


class Decision:
    """As a future of `append_at_once`."""

    def __init__(self) -> None:
        self._made, self._error = False, cast("DledgerError | None", None)
        self._then: Callable[[Any], None] | None = None

    def made(self, error: DledgerError | None) -> None:
        """Note that the log accepted the proposal, or refused it with this error."""
        self._made, self._error = True, error
        if self._then is not None:
            self._then(self)

    def when_done(self, then: Callable[[Any], None]) -> None:
        """Call `then` with this, at once or when it is made."""
        self._then = then
        if self._made:
            then(self)

    def cancelled(self) -> bool:
        """False: a proposal is never taken back."""
        return False

    def exception(self) -> DledgerError | None:
        """The refusal; None: accepted, or not decided yet."""
        return self._error
