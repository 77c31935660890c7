"""Appends the growing lists of a run (history, node rows, faults) to files in its folder as they
grow.

    history, rows, ended faults ──every 0.5 s──► *.jsonl, flushed

So a run that dies leaves all but its last moment, and `dledger chaos check` can judge that. A run
that ends writes each file once more, whole, beside the streamed one, and puts it in its place
(folder.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

PERIOD_SECONDS = 0.5


class Stream:
    """One list and its file; `to_json` makes an item one line."""

    def __init__(self, path: Path, items: Sequence[Any], to_json: Callable[[Any], str]) -> None:
        self._items, self._to_json, self._written = items, to_json, 0
        self._file: IO[str] = path.open("w", encoding="utf-8")

    def catch_up(self) -> None:
        """Appends the new items to the file and flushes them to the operating system. Raises
        OSError."""
        end = len(self._items)
        if end > self._written:
            new = self._items[self._written : end]
            self._file.write("".join(self._to_json(item) + "\n" for item in new))
            self._file.flush()
            self._written = end

    def close(self) -> None:
        """The rest, too."""
        with contextlib.closing(self._file):
            self.catch_up()


class Streamed:
    """Keeps streams up to date while `async with` lasts; its exit raises the error of a failed
    write."""

    def __init__(self, *streams: Stream) -> None:
        self._streams = streams
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        for stream in self._streams:
            stream.close()
        if isinstance(ended, Exception):
            raise ended

    async def _follow(self) -> None:
        while True:  # until the context ends
            for stream in self._streams:
                stream.catch_up()
            await asyncio.sleep(PERIOD_SECONDS)
