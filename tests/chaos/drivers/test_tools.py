"""The machine's tools: what ends a run does not end what cleans up behind it."""

from __future__ import annotations

import signal

import pytest

from chaos.drivers import tools
from chaos.drivers.tools import run_tool


def test_signals_to_the_group_do_not_end_a_tool_before_it_left_the_group() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    (line,) = [
        line
        for line in run_tool("cat", "/proc/self/status").splitlines()
        if line.startswith("SigBlk:")
    ]
    blocked = int(line.split()[1], 16)
    for number in (signal.SIGINT, signal.SIGTERM):
        assert blocked >> number - 1 & 1, number
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_tool_that_fails_says_its_own_words() -> None:
    with pytest.raises(OSError, match=r"^sh -c echo no >&2; exit 3 failed: no$"):
        run_tool("sh", "-c", "echo no >&2; exit 3")
    with pytest.raises(OSError, match=r"^sh -c exit 3 failed: exit code 3$"):
        run_tool("sh", "-c", "exit 3")


def test_a_tool_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "COMMAND_SECONDS_MAX", 0.01)
    with pytest.raises(OSError, match="sleep 1000 did not end"):
        run_tool("sh", "-c", "exec sleep 1000")
