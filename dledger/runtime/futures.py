"""Futures that a caller may await or give up: results of a replica's callbacks, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from dledger.errors import DledgerError


def resolve(done: asyncio.Future[None]) -> Callable[[DledgerError | None], None]:
    """A replica's callback that ends a future."""

    def resolve(error: DledgerError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    return resolve


async def until_done(future: asyncio.Future[Any]) -> None:
    """Wait for it in any case, for a caller that must not leave it to itself.

    Raises CancelledError after that, when this call was cancelled meanwhile, however often.
    """
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class OneEnd:
    """The end of a part: done once, by a task of its own, and awaited by each caller.

    A call that is cancelled ends alone. The first one that is not raises what the end raised.
    """

    __slots__ = ("_ending", "_is_told")

    def __init__(self) -> None:
        self._ending: asyncio.Future[tuple[BaseException | None]] | None = None
        self._is_told = False

    async def wait(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin `end()` if no earlier call has, and wait for it."""
        if self._ending is None:
            self._ending = asyncio.gather(end(), return_exceptions=True)
        (failure,) = await asyncio.shield(self._ending)
        is_told, self._is_told = self._is_told, True
        if failure is not None and not is_told:
            raise failure
