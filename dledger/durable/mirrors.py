"""Writes `currterm` and `checkpoint` for Java, which reads them; dledger never does.

Source: docs/spec/raft_log.md 1.6.

    currterm     voteLeader=<node id or empty> \\n currTerm=<long> \\n
    checkpoint   committedIndex=<long> \\n endIndex=<long> \\n

Each file is replaced whole, at most every 3 s (Java's checkPointInterval) and at close; a crash
leaves the old file or the new one. On a full disk both stay as they are.
"""

from __future__ import annotations

from pathlib import Path

from commitlog.files.system import FileSystem, is_out_of_space
from dledger.core.types import HardState, Index

MIRROR_DELAY_S = 3.0


class Mirrors:
    """Wanted contents of the two files. `capture` takes changes, `write` may run in any thread."""

    def __init__(self, files: FileSystem, folder: Path, *, staging: Path) -> None:
        self._files, self._folder, self._staging = files, folder, staging
        self._wanted: dict[str, bytes] = {}
        self._written: dict[str, bytes] = {}

    def set_term(self, state: HardState) -> None:
        """Notes term and vote for the next write of `currterm`."""
        text = f"voteLeader={state.voted_for or ''}\ncurrTerm={state.term}\n"
        self._wanted["currterm"] = text.encode()

    def set_commit(self, committed: Index, last: Index) -> None:
        """Notes committed and last index for the next write of `checkpoint`."""
        self._wanted["checkpoint"] = f"committedIndex={committed}\nendIndex={last}\n".encode()

    @property
    def stale(self) -> bool:
        """True until this process has written all noted values; files on disk are not read."""
        return self._wanted != self._written

    def capture(self) -> dict[str, bytes]:
        """Content by name of the files to write: a copy, so values may change during `write`."""
        return {
            name: data for name, data in self._wanted.items() if self._written.get(name) != data
        }

    def write(self, captured: dict[str, bytes]) -> None:
        """Replaces the captured files. On a full disk the rest stays stale; else raises OSError."""
        for name, data in captured.items():
            try:
                self._files.write_atomic(self._folder / name, data, staging=self._staging)
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                return  # the rest stays stale, so the next `write` tries again
            self._written[name] = data
