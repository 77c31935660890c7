"""`async with` starts and closes: the common part of all that runs until it is closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifetime(ABC):
    """`async with` calls `start`, and `close` at the end of the block, also after an error."""

    @abstractmethod
    async def start(self) -> None:
        """Begin; called once."""

    @abstractmethod
    async def close(self) -> None:
        """End; a second call has no effect."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
