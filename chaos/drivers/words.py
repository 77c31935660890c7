"""The lines that a node printed since a moment: its own reasons for refusing to start, or for
stopping.

A process that has ended proves nothing: it may have crashed. So a refusal counts by its sentence,
and only by one that was printed since: the same log has those of earlier starts.
"""

from __future__ import annotations

from pathlib import Path

LOG = "log.txt"  # cluster/local/processes.py
#: Before the reason of an end that was meant (cluster/local/service.py).
STOPPED = "stopped: "
SHOWN_CHARS = 200


class Words:
    """The lines that a folder's node prints from now on."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / LOG
        self._begin = self._log.stat().st_size if self._log.exists() else 0

    def line(self, *parts: str) -> str:
        """The last one that has each of these in it; "" when there is none."""
        found = [line for line in self._lines() if all(part in line for part in parts)]
        return found[-1][:SHOWN_CHARS] if found else ""

    def last(self) -> str:
        """Returns the last line; "" if no line was printed."""
        return self.line()

    def _lines(self) -> list[str]:
        if not self._log.exists():
            return []
        with self._log.open("rb") as log:
            log.seek(self._begin)
            return log.read().decode("utf-8", "replace").splitlines()
