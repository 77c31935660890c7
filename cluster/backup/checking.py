"""Is a backup whole? Every part is read, and every record in it verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.backup.backing_up import content_of, state_of
from cluster.backup.entries import verified
from cluster.backup.errors import BackupError
from cluster.backup.manifest import Manifest
from cluster.backup.places import Place


@dataclass(frozen=True, slots=True)
class Checked:
    """`faults`: a sentence for each part that is missing or damaged; none for a whole backup."""

    parts: int
    size: int
    faults: tuple[str, ...]


def check(
    place: Place, manifest: Manifest, progress: Callable[[int], None] = lambda _: None
) -> Checked:
    """Read everything; a damaged part does not end it. Raises OSError.

    `progress` is called with the number of parts that were read, after each piece.
    """
    faults: list[str] = []
    parts = size = 0
    if manifest.beginning is not None:
        parts, size = 1, manifest.beginning.size
        try:
            state_of(place, manifest)
        except BackupError as error:
            faults.append(error.happened)
    before = manifest.anchor
    for piece in manifest.pieces:
        parts, size = parts + 1, size + piece.end - piece.position
        try:
            data = content_of(place, f"{manifest.log.group}/{piece.name}")
            verified(data, piece, before, manifest.log)
        except BackupError as error:
            faults.append(error.happened)
        before = piece.tail
        progress(parts)
    return Checked(parts, size, tuple(faults))
