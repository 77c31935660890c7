"""A group of three replicas for a test, stopped when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest_asyncio

from .group import Group


@pytest_asyncio.fixture
async def group(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[Group]:
    made = Group(tmp_path, new_address)
    yield made
    await made.close()
