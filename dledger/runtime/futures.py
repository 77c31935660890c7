"""Results of a replica's callbacks as futures that a caller may await or give up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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
