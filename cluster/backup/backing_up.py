"""Make a backup longer: committed entries that are not in it go there, piece by piece.

    read MANIFEST.json ─► write log/…, piece by piece ─► replace MANIFEST.json, now and then

The manifest names a piece only when it is durable, so a command that is killed leaves a whole
backup, and the next one goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from cluster.backup import manifest as manifests
from cluster.backup.errors import BackupDamaged, BackupError
from cluster.backup.manifest import Beginning, Manifest
from cluster.backup.node_log import NodeLog
from cluster.backup.places import Place


@dataclass(frozen=True, slots=True)
class Added:
    """The backup as it is now, and how much longer it has become."""

    manifest: Manifest
    entries: int
    size: int


#: The manifest is replaced when it has so many times the pieces of the one before, and at the end:
#: replaced for each piece, a long backup would write the whole table once for each of its rows.
NAMED_LATER = 1.05
Progress = Callable[[Manifest], None]


def read_manifest(place: Place, group: str) -> tuple[Manifest, bytes]:
    """The manifest of a group and its bytes.

    Raises FileNotFoundError, BackupDamaged, LaterVersion, OSError.
    """
    name = f"{group}/{manifests.NAME}"
    data = place.read(name)
    return manifests.decode(data, f"{place}/{name}"), data


def back_up(
    log: NodeLog,
    committed: int,
    place: Place,
    now_ms: Callable[[], int],
    progress: Progress = lambda _: None,
) -> Added:
    """Add the entries up to index `committed`; all that is committed there is in the backup then.

    `progress` is called after each piece. Raises BackupError and its kinds, OSError.
    """
    group = log.identity.group
    written: bytes | None = None
    try:
        manifest, written = read_manifest(place, group)
    except FileNotFoundError:
        manifest = _begun(log, place, group)
    else:
        _refuse_other(manifest, log, place)
    before = manifest
    named = len(manifest.pieces)
    for piece, content in log.pieces(manifest.tail, committed):
        place.write(f"{group}/{piece.name}", bytes(content))
        manifest = manifest.with_piece(piece, now_ms())
        if len(manifest.pieces) > named * NAMED_LATER:
            written, named = _name(place, manifest, written), len(manifest.pieces)
        progress(manifest)
    if (
        written is None or len(manifest.pieces) > named
    ):  # also without a piece: the place is this log's from now on
        _name(place, manifest, written)
    return Added(manifest, manifest.mark - before.mark, manifest.size - before.size)


def _name(place: Place, manifest: Manifest, before: bytes | None) -> bytes:
    """Replace the manifest that had the bytes `before`; returns its new bytes."""
    data = manifests.encode(manifest)
    place.replace(f"{manifest.log.group}/{manifests.NAME}", data, before)
    return data


def _begun(log: NodeLog, place: Place, group: str) -> Manifest:
    """A manifest without pieces; the state before the log's first entry is in its place."""
    found = log.beginning()
    if found is None:
        return Manifest(log.identity)
    start, state = found
    beginning = Beginning(start, len(state), hashlib.sha256(state).hexdigest())
    place.write(f"{group}/{beginning.name}", state)
    return Manifest(log.identity, beginning=beginning)


def _refuse_other(manifest: Manifest, log: NodeLog, place: Place) -> None:
    if manifest.log != log.identity:
        raise BackupError(
            f"{place} holds a backup of cluster {manifest.log.cluster_id} and this is "
            f"{log.identity.cluster_id}; give each cluster a place of its own"
        )


def state_of(place: Place, manifest: Manifest) -> bytes:
    """The state before the log's first entry. Raises BackupDamaged, OSError."""
    beginning = manifest.beginning
    assert beginning is not None, "only a log without its first entry has one"
    name = f"{manifest.log.group}/{beginning.name}"
    data = content_of(place, name)
    if len(data) != beginning.size or hashlib.sha256(data).hexdigest() != beginning.sha256:
        raise BackupDamaged(f"{place}/{name} does not have the bytes that were written")
    return data


def content_of(place: Place, name: str) -> bytes:
    """The bytes of a part that the manifest names. Raises BackupDamaged when it is missing."""
    try:
        return place.read(name)
    except FileNotFoundError:
        raise BackupDamaged(f"{place}/{name} is missing") from None
