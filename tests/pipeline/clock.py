"""The wall clock, as far as stamps of messages are told apart by it."""

from __future__ import annotations

import time

from tests.waiting import wait_until


def next_millisecond() -> int:
    """Wait until the wall clock shows another millisecond; that one."""
    began = _now_ms()
    return wait_until(lambda: _now_ms() - began > 0 and _now_ms(), "the clock goes on")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
