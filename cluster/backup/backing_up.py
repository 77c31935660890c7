"""Make a backup longer: committed entries that are not in it go there, piece by piece.

    read MANIFEST.json ─► write log/… ─► replace MANIFEST.json ─► next piece

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
from cluster.backup.node_log import NodeLog, fields_of
from cluster.backup.places import Place


@dataclass(frozen=True, slots=True)
class Added:
    """The backup as it is now, and how much longer it has become."""

    manifest: Manifest
    entries: int
    size: int


Progress = Callable[[Manifest], None]


def read_manifest(place: Place, group: str) -> tuple[Manifest, bytes]:
    """The manifest of a group and its bytes. Raises FileNotFoundError, BackupDamaged, OSError."""
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
    name = f"{group}/{manifests.NAME}"
    try:
        manifest, data = read_manifest(place, group)
    except FileNotFoundError:
        manifest, written = _begun(log, place, group), None
    else:
        written = data
        _refuse_other(manifest, log, place)
    before = manifest
    for piece, content in log.pieces(manifest.tail, committed):
        place.write(f"{group}/{piece.name}", bytes(content))
        manifest = manifest.with_piece(piece, now_ms())
        encoded = manifests.encode(manifest)
        place.replace(name, encoded, written)
        written = encoded
        progress(manifest)
    if written is None:  # nothing is committed yet; the place is this log's from now on
        place.replace(name, manifests.encode(manifest), None)
    return Added(manifest, manifest.mark - before.mark, manifest.size - before.size)


def _begun(log: NodeLog, place: Place, group: str) -> Manifest:
    """A manifest without pieces; the state before the log's first entry is in its place."""
    found = log.beginning()
    if found is None:
        return Manifest(log.identity)
    start, state = found
    beginning = Beginning(fields_of(start), len(state), hashlib.sha256(state).hexdigest())
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
