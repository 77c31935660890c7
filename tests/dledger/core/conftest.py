"""Each test of the core ends with the invariants of the nodes it made (build.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import build


@pytest.fixture(autouse=True)
def invariants_at_teardown() -> Iterator[None]:
    build.made.clear()
    yield
    wrong = build.broken()
    assert not wrong, wrong
