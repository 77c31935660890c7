"""In-process brokers, one event loop, real sockets on addresses of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .harness import Brokers, heard_mistakes

MakeBrokers = Callable[..., AbstractAsyncContextManager[Brokers]]


@pytest.fixture
def make_brokers(tmp_path: Path, new_address: Callable[[], str]) -> MakeBrokers:
    """`async with make_brokers(3, setting=value, raft={…}) as brokers`."""

    @asynccontextmanager
    async def make(
        number: int = 1, *, raft: Mapping[str, Any] | None = None, **settings: Any
    ) -> AsyncIterator[Brokers]:
        brokers = Brokers(tmp_path, [new_address() for _ in range(number)], settings, raft)
        with heard_mistakes(brokers.mistakes):
            try:
                await brokers.start()
                yield brokers
            finally:
                await brokers.close()
        assert brokers.mistakes == [], "a test of one takes it out"

    return make
