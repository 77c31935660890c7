"""Which records reach queue and index (docs/spec/store.md 3.6)."""

from __future__ import annotations

import pytest

from commitlog.records import sys_flag


@pytest.mark.parametrize(
    ("flags", "queue", "index"),
    [(0x0, True, True), (0x8, True, True), (0x4, False, True), (0xC, False, False)],
)
def test_dispatch_table(flags: int, queue: bool, index: bool) -> None:
    noise = 0x7F3  # every other bit
    assert sys_flag.transaction_type(flags | noise) == flags
    assert sys_flag.goes_to_queue(flags | noise) is queue
    assert sys_flag.goes_to_index(flags | noise) is index
