"""A run's folder grows while it runs, so that one that is killed leaves what it saw."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.live import streamed
from chaos.live.streamed import Stream, Streamed
from tests.waiting import eventually, limit

ROOT = Path(__file__).parents[3]
GROWS = """
import asyncio, sys
from pathlib import Path
from chaos.live import streamed

async def grow():
    path, items = Path(sys.argv[1]), []
    async with streamed.Streamed(streamed.Stream(path, items, str)):
        while path.stat().st_size < 1000:  # for ever, if it is written at the end only
            items.append(len(items))
            await asyncio.sleep(0.001)
        print("a thousand", flush=True)
        await asyncio.sleep(600)

asyncio.run(grow())
"""


def test_what_is_appended_is_in_the_file_soon_and_the_rest_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "PERIOD_SECONDS", 0.01)
    path, items = tmp_path / "rows", ["one"]

    async def run() -> None:
        async with Streamed(Stream(path, items, str.upper)):
            items.append("two")
            await eventually(lambda: path.read_text() == "ONE\nTWO\n", "both are in the file")
            items.append("three")

    asyncio.run(run())
    assert path.read_text() == "ONE\nTWO\nTHREE\n"


def test_a_process_that_is_killed_leaves_all_but_its_last_moment(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    command = [sys.executable, "-c", GROWS, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "a thousand\n"
    finally:
        process.kill()
        process.communicate(timeout=limit(20))
    lines = path.read_text().splitlines()
    assert lines == [str(number) for number in range(len(lines))]
    assert sum(map(len, lines)) + len(lines) >= 1000


def test_what_writing_dies_of_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "PERIOD_SECONDS", 0.01)

    refused = []

    def refuse(item: object) -> str:
        refused.append(item)
        raise OSError("no space left")

    async def run() -> None:
        items: list[str] = []
        async with Streamed(Stream(tmp_path / "rows", items, refuse)):
            items.append("one")
            await eventually(lambda: refused, "it was to be written")

    with pytest.raises(OSError, match="no space left"):
        asyncio.run(run())
