"""The generations of this node's folder, and the last one of each peer (generation.py).

    <data_dir>/generations    two equal lines, either of which may rot:
        {"number": 20, "starts": [[1, 8071523990012], [14, 5550012345]],
         "met": {"n1": [7714, 12, 990017]}} crc32 8 hex digits

    number    the newest, on disk before any peer hears of it
    starts    [first number, token] of each start; a start's numbers end where the next one's begin
    met       node: [its incarnation, number, token]

A copy of the folder that is older than what a peer met lacks the number, or has another token
there. What is promised between the making of a copy and the next generation, `RENEW_SECONDS` at
most, cannot be told apart. What was met is written in the background: a crash right after a meeting
may lose it, which is a second fault. A file that is gone while peers remember is an older copy.
"""

from __future__ import annotations

import json
import logging
import secrets
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

from commitlog.files.system import FileSystem
from commitlog.records.checksum import crc32
from dledger.core.types import NodeId
from dledger.durable import two_copies
from dledger.errors import NodeFailed
from dledger.membership.generation import NO_GENERATION, Generation
from dledger.versions import refuse_other_fields

_log = logging.getLogger(__name__)

FILE_NAME = "generations"
#: While a node promises anything, its folder gets a new generation so often.
RENEW_SECONDS = 10.0
#: Of starts that are kept, the newest; what a peer met before them is believed.
STARTS_MAX = 1024
_TOKEN_BITS = 63


def read_fields(files: FileSystem, folder: Path) -> dict[str, Any]:
    """The line of the file. Raises NodeFailed when neither can be read, LaterVersion, OSError."""
    path = folder / FILE_NAME
    for text in texts(files, folder):
        if text is not None:
            fields: dict[str, Any] = json.loads(text)
            refuse_other_fields(path, fields, ("number", "starts", "met"))
            return fields
    raise NodeFailed(
        f"neither line of {path} is whole, so nobody can tell whether this folder is the newest; "
        "restore the file, or replace the node"
    )


def texts(files: FileSystem, folder: Path) -> list[bytes | None]:
    """The text of each line, None for one that is not whole. Raises OSError."""
    return two_copies.copies(files.read(folder / FILE_NAME), _whole, 1)


def _whole(line: bytes) -> bytes | None:
    text, _, check = line.rpartition(b" crc32 ")
    return text if text and check[:8] == b"%08x" % crc32(text) else None


class Generations:
    """`dledger.membership.generation.Witness`, on disk. Used from one thread but for `write`.

    Attributes:
        current: the newest generation that is on disk.
        told_older: called once, with a sentence, when this folder turns out to be an older copy.
        changed: called when there is something to be written in the background.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: Path,
        node_id: NodeId,
        draw: Callable[[], int] = lambda: secrets.randbits(_TOKEN_BITS),
    ) -> None:
        """Begin a new start of the folder. Raises NodeFailed when neither line can be read.

        Where a disk takes nothing, the start goes on in the last generation that it had.
        """
        self._files, self._folder, self._me = files, folder, node_id
        self.told_older: Callable[[str], None] = lambda _: None
        self.changed: Callable[[], None] = lambda: None
        self._starts: list[tuple[int, int]] = []
        self._met: dict[NodeId, tuple[int, Generation]] = {}
        self.current = NO_GENERATION
        if files.exists(self._path):
            self._take(read_fields(files, folder))
        number, token = self.current.number + 1, draw()
        before = list(self._starts)
        self._starts = [*before, (number, token)][-STARTS_MAX:]
        try:
            self.write(self.capture(number))
        except OSError as error:
            self._starts = before
            _log.warning("%s is not written, so the last generation stays: %s", self._path, error)
            return
        self.current = Generation(number, token)

    @property
    def _path(self) -> Path:
        return self._folder / FILE_NAME

    # -- as Witness ------------------------------------------------------------------------------

    def met(self, peer: NodeId, incarnation: int) -> Generation:
        """The newest generation met of this incarnation of a peer; NO_GENERATION if none."""
        known = self._met.get(peer)
        return NO_GENERATION if known is None or known[0] != incarnation else known[1]

    def judge(self, peer: NodeId, met: Generation) -> str | None:
        """The refusal if our folder lacks generation `met`, also told `told_older`; else None."""
        if not self._lacks(met):
            return None
        sentence = (
            f"the folder of {self._me} is older than what {peer} has met of it (generation "
            f"{met.number}): it was put back from a backup, or another copy of it was started, so "
            "it forgot votes and entries; bring the newest folder back, or empty it, format it to "
            f"join and readmit it: member replace {self._me}"
        )
        self.told_older(sentence)
        return sentence

    def remember(self, peer: NodeId, incarnation: int, generation: Generation) -> None:
        """Keeps a generation of a peer if it is newer than the one kept, and calls `changed`."""
        if generation.number <= self.met(peer, incarnation).number:
            return
        self._met[peer] = (incarnation, generation)
        self.changed()

    # -- on disk ---------------------------------------------------------------------------------

    def capture(self, number: int) -> bytes:
        """The file's content with `number` as the newest; `write` it, then call `renewed`."""
        fields = {
            "number": number,
            "starts": self._starts,
            "met": {
                peer: [incarnation, *known]
                for peer, (incarnation, known) in sorted(self._met.items())
            },
        }
        line = json.dumps(fields).encode()
        return (line + b" crc32 %08x\n" % crc32(line)) * 2

    def write(self, data: bytes) -> None:
        """May be called in another thread, one call at a time. Raises OSError."""
        self._files.write_atomic(self._path, data)

    def renewed(self, number: int) -> None:
        """`write` of that number has ended."""
        if self._starts and number > self.current.number:
            self.current = Generation(number, self._starts[-1][1])

    def _lacks(self, met: Generation) -> bool:
        if met.number > self.current.number:
            return True
        row = bisect_right(self._starts, (met.number, 1 << 64)) - 1
        return met != NO_GENERATION and row >= 0 and self._starts[row][1] != met.token

    def _take(self, fields: dict[str, Any]) -> None:
        self._starts = [(int(first), int(token)) for first, token in fields["starts"]]
        self._met = {
            NodeId(peer): (int(incarnation), Generation(int(number), int(token)))
            for peer, (incarnation, number, token) in fields["met"].items()
        }
        if self._starts:
            self.current = Generation(int(fields["number"]), self._starts[-1][1])
