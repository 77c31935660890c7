"""A restore tells the cluster that it makes: a note in each node's folder becomes one audit entry.

    dledger restore ─► restored.json in each node's folder ─► its first leadership: is the entry
                       in the log already? ─► no: written ─► committed: the note is removed

Each node has the note, since any of them may lead first. One that leads later finds the entry in
the log, by its `id`, and removes its own note. So does one that leads so late that log files of the
time of the restore have gone, and the entry perhaps with them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cluster.broker.access.audit.reading import Piece, older
from cluster.broker.access.audit.trail import AuditTrail
from cluster.broker.access.ports import AccessPorts
from cluster.core.audit.entry import AuditEntry
from cluster.errors import ClusterError
from commitlog.errors import StoreError
from commitlog.files.system import FileSystem
from dledger.core.types import Term

NOTE: Final = "restored.json"
VERB: Final = "restore"

CLOCKS_APART_MS: Final = 86_400_000
"""Entries that are older than the restored messages by more end the search: clocks may be off."""

_log = logging.getLogger(__name__)


class RestoreNote:
    """One per node. `look` is called when the node has begun to lead, or leads no more."""

    def __init__(
        self, ports: AccessPorts, trail: AuditTrail, files: FileSystem, folder: Path
    ) -> None:
        """Reads the note of `folder`, if there is one."""
        self._ports, self._trail, self._files, self._path = ports, trail, files, folder / NOTE
        self._note = _read(files, self._path)
        self._looked_in = Term(-1)

    def look(self) -> None:
        """Write the entry, unless the log has it; once for each leadership."""
        leadership = self._ports.leadership
        if self._note is None or not leadership.leads or leadership.term == self._looked_in:
            return
        self._looked_in = leadership.term
        pieces = older(self._ports.derived, self._ports.reader, None)
        self._ports.owned.call_soon(self._step, leadership.term, pieces, self._note)

    def _step(self, term: Term, pieces: Iterator[Piece], note: Mapping[str, Any]) -> None:
        """Read a few entries; those from before the restore are of no interest."""
        if not self._ports.leadership.leads or self._ports.leadership.term != term:
            return  # the next leader looks for itself
        try:
            piece = next(pieces, None)
        except StoreError as error:
            _log.error("the restore of this cluster is in no audit entry: %s", error)
            return
        for audited in () if piece is None else piece.entries:
            entry = audited.entry
            if entry.verb == VERB and entry.parameters.get("id") == note["id"]:
                self._written(None)
                return
            if audited.at_ms < note["last_ms"] - CLOCKS_APART_MS:
                piece = None
                break
        if piece is None and self._ports.log.store.first_index > note["to_index"]:
            self._written(None)  # it was told, and has gone with the log's oldest files
        elif piece is None:
            self._write(note)
        else:
            self._ports.owned.call_soon(self._step, term, pieces, note)

    def _write(self, note: Mapping[str, Any]) -> None:
        parameters = {
            name: value for name, value in note.items() if name not in ("target", "command", "by")
        }
        entry = AuditEntry(
            verb=VERB,
            target=str(note.get("target", "")),
            via="cli",
            by=str(note.get("by", "")),
            node=self._ports.config.node_id,
            command=str(note.get("command", "")),
            parameters=parameters,
        )
        try:
            self._trail.write(entry, self._written)
        except ClusterError as full:
            self._written(full)

    def _written(self, error: Exception | None) -> None:
        if error is not None:
            _log.warning("the audit log has no entry of the restore yet: %s", error)
            return  # the next leadership tries again
        if self._note is not None:
            self._note = None
            try:
                self._files.remove(self._path)
            except OSError as failed:  # the next start finds the entry, and tries again
                _log.warning("the note of the restore stays, as it cannot be removed: %s", failed)


def _read(files: FileSystem, path: Path) -> Mapping[str, Any] | None:
    try:
        note = json.loads(files.read(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        _log.error("%s cannot be read, so no audit entry tells of the restore: %s", path, error)
        return None
    numbers = ("last_ms", "to_index")
    if not isinstance(note, dict) or not all(type(note.get(one)) is int for one in numbers):
        return None
    return note if isinstance(note.get("id"), str) else None
