"""Mistakes in a server's log: exceptions that ended it, cost a client, or were not caught.

A log of a server that works has none, whatever its disks, peers and clients do. So tests, live runs
and judges of a cluster look here (`dledger/runtime/owned.py` says what is logged how).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Whatever tells of a mistake shows where it was: `Owned`, asyncio, and `service.run` alike.
_TRACEBACK = "Traceback (most recent call last):"
_CAUSES = ("During handling of", "The above exception")
SHOWN_CHARS = 300


def mistakes(folder: Path) -> list[str]:
    """One line for each in the logs of a server's folder, oldest first."""
    return [story for log in sorted(folder.glob("log*.txt")) for story in in_log(log)]


def _as_text(lines: Iterable[str]) -> Iterator[str]:
    """Lines as the text form of the log has them; a JSON object is its message, then its error."""
    for line in lines:
        if line.startswith('{"time": ') and '"error": ' in line:
            with contextlib.suppress(ValueError, KeyError):  # one that a full disk cut short
                event = json.loads(line)
                yield str(event["message"])
                yield from str(event["error"]).splitlines()
                continue
        yield line


def in_log(log: Path) -> Iterator[str]:
    """One line per traceback: the line before it, and the exception's line behind it."""
    before, told, inside = "", "", False
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in _as_text(file):
            if inside and line.strip() and not line.startswith((" ", _TRACEBACK, *_CAUSES)):
                yield f"{told}: {line.strip()}"[:SHOWN_CHARS]
                inside = False
            elif line.startswith(_TRACEBACK) and not inside:
                inside, told = True, before
            elif line.startswith(_CAUSES):
                inside = True
            before = line.strip() or before
    if inside:
        yield told[:SHOWN_CHARS]
