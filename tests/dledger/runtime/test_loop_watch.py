"""A standstill of the event loop is said once, by a thread that does not stand still with it."""

from __future__ import annotations

import time

import pytest

from dledger.runtime.loop_watch import LoopWatch
from tests.waiting import wait_until


def test_a_standstill_is_said_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch("n0", 2.0, 0.5, lambda: 10.0)
    watch.look(11.9)
    assert caplog.messages == []
    watch.look(12.0)
    watch.look(13.0)
    assert len(caplog.messages) == 1
    assert "n0: its event loop has stood still for 2.0 s: a write" in caplog.text
    watch.came_round(13.1)
    watch.look(13.2)
    watch.look(13.3)
    assert caplog.messages[1:] == ["n0: its event loop goes on"]


def test_a_thread_looks(caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch("n0", 0.05, 0.01, time.monotonic)
    watch.start()
    wait_until(lambda: caplog.messages, "a message of the thread")
    watch.stop()
    assert "stood still" in caplog.text
