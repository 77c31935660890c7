"""Shared by the tests of chaos."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from tests.virtual_loop import VirtualLoop


@pytest_asyncio.fixture
async def loop_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """`time.monotonic` is the loop's time: with `virtual_time`, for code that reads both."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):  # a test that is not async has another
        monkeypatch.setattr("time.monotonic", loop.time)
