"""The leaders that a node has seen, in a file, so that they are known after a restart.

    <root>/leaders.json   {"since_ms": 1795750000000,
                           "rows": [{"at_ms": 1795750001000, "term": 3, "leader": "n0", "why": ""}]}

Terms rise; there are at most as many rows as the node keeps. Written by housekeeping, within a
second of a new leader, in a thread: no election and no send waits for it. A kill takes the last
second; the other nodes of the group have it. No safety depends on the file: one that cannot be
read is passed over, one that cannot be written is told once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from cluster.core.lead_history import KEPT, REASONS, LeadHistory, LeadSeen
from commitlog.files.system import FileSystem

NAME: Final = "leaders.json"
SIZE_MAX: Final = 1 << 20
LEADER_LENGTH_MAX: Final = 255
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last moment of the year 9999: tools that print a time have no later one."""

_log = logging.getLogger(__name__)


class LeadFile:
    """The file of one node, and the list that is saved in it (`history`)."""

    def __init__(self, files: FileSystem, root: Path, staging: Path, now_ms: int) -> None:
        """Read the file; `now_ms` is when a history without one begins."""
        self._files, self._path, self._staging = files, root / NAME, staging
        self.history = self._read() or LeadHistory(now_ms)
        self._saved, self._is_told = 0, False
        self._one_at_a_time = threading.Lock()

    async def save(self) -> None:
        """Write the file if a row came or went since the last time.

        One write at a time: that of a caller who was cancelled goes on in its thread, and would put
        its older rows over later ones, or in a folder that another process has by then.
        """
        history = self.history
        if history.changes == self._saved:
            return
        changes = history.changes
        rows = [asdict(row) for row in history.rows]
        body = orjson.dumps({"since_ms": history.since_ms, "rows": rows})
        try:
            await asyncio.to_thread(self._write, body)
        except OSError as error:
            if not self._is_told:
                _log.warning("%s is not written, so a restart forgets it: %s", self._path, error)
            self._is_told = True
        else:
            self._saved, self._is_told = changes, False

    def _write(self, body: bytes) -> None:
        with self._one_at_a_time:
            self._files.write_atomic(self._path, body, staging=self._staging)

    def _read(self) -> LeadHistory | None:
        try:
            if self._files.file_size(self._path) > SIZE_MAX:
                raise ValueError(f"more than {SIZE_MAX} bytes")
            return decode_history(self._files.read(self._path))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            _log.warning("leaders of before are not known, %s is wrong: %s", self._path, error)
            return None


def decode_history(body: bytes) -> LeadHistory:
    """The content of the file. Raises ValueError for anything that `save` does not write."""
    value = orjson.loads(body)
    if not isinstance(value, dict) or not isinstance(value.get("rows"), list):
        raise ValueError("no object with rows")
    rows = [_row(row) for row in value["rows"]]
    if len(rows) > KEPT or any(a.term >= b.term for a, b in itertools.pairwise(rows)):
        raise ValueError(f"more than {KEPT} rows, or terms that do not rise")
    return LeadHistory(_time(value.get("since_ms")), rows)


def _row(value: Any) -> LeadSeen:
    if not isinstance(value, dict) or value.get("why") not in REASONS:
        raise ValueError(f"a row that is none: {value!r:.80}")
    leader = value.get("leader")
    if not isinstance(leader, str) or not 0 < len(leader) <= LEADER_LENGTH_MAX:
        raise ValueError(f"a leader that is none: {leader!r:.80}")
    return LeadSeen(_time(value.get("at_ms")), _number(value.get("term")), leader, value["why"])


def _time(value: Any) -> int:
    if _number(value) > TIME_MS_MAX:
        raise ValueError(f"a time that is none: {value}")
    return int(value)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a number that is none: {value!r:.80}")
    return value
