"""What a log says of mistakes, and that a log without any says nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from cluster.local.stories import mistakes
from dledger.runtime.owned import Owned

USUAL = "2026-01-01 00:00:00.000 WARNING dledger: n0: its disk is full: [Errno 28] No space left\n"


def written(folder: Path, text: str) -> list[str]:
    (folder / "log.txt").write_text(USUAL + text + USUAL)
    return mistakes(folder)


def test_a_log_without_exceptions_tells_of_no_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path) == [], "there is no log yet"
    assert written(tmp_path, "") == []


def test_a_mistake_is_told_with_the_line_before_and_the_error(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
    first = f"ERROR asyncio: Task exception was never retrieved\n{trace}ValueError: first\n"
    again = "\nThe above exception was the direct cause of the following exception:\n\n"
    second = f"CRITICAL n0: stopped by a mistake\n{trace}KeyError: 1\n{again}{trace}OSError: 2\n"
    assert written(tmp_path, first + second) == [
        "ERROR asyncio: Task exception was never retrieved: ValueError: first",
        "CRITICAL n0: stopped by a mistake: KeyError: 1",
        "CRITICAL n0: stopped by a mistake: OSError: 2",
    ]


@pytest.mark.parametrize("kind", ["spared", "in a callback of asyncio's"])
async def test_what_a_node_logs_of_a_mistake_is_found(tmp_path: Path, kind: str) -> None:
    handler = logging.FileHandler(tmp_path / "log.txt")
    logging.getLogger().addHandler(handler)
    try:
        if kind == "spared":
            try:
                raise ValueError(kind)
            except ValueError:
                Owned(lambda error: None).spared("request %d of %s", 10, "127.0.0.1")
        else:
            asyncio.get_running_loop().call_soon(int, kind)
            await asyncio.sleep(0)
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
    assert len(mistakes(tmp_path)) == 1
