"""A file that a later release wrote says so: one rule, and one sentence, for all formats.

    a number     larger than the one known here                 identity, states, progress, backups
    a magic      "DLS2" to "DLS9" in both slots of a small file  hardstate, flushmark, truncate
    a payload    longer than the one known here                 the same three
    fields       others than those known here                   files of JSON lines

Each reader asks here *behind* its checksum: rot is told from a later form by that alone.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from dledger.errors import LaterVersion


def refuse_later(what: Path | str, version: object, known: int) -> None:
    """Raises LaterVersion for a version above the known one."""
    if isinstance(version, int) and version > known:
        raise LaterVersion(f"{what} is of version {version}, and this release knows {known}")


def refuse_longer(what: Path | str, size: int, known: int) -> None:
    """Raises LaterVersion for a payload with more bytes than the known ones."""
    if size > known:
        raise LaterVersion(f"{what} has {size} bytes, and this release knows {known}")


def refuse_other_fields(
    what: Path | str, fields: object, known: Collection[str], optional: Collection[str] = ()
) -> None:
    """Raises LaterVersion unless `fields`, of a JSON object, are the known ones.

    `optional`: fields that former releases did not write.
    """
    found = set(fields) if isinstance(fields, dict) else {"another shape"}
    strange, gone = found - {*known, *optional}, set(known) - found
    if strange:
        raise LaterVersion(f"{what} has {_listed(strange)}, which this release does not know")
    if gone:
        raise LaterVersion(f"{what} lacks {_listed(gone)}, which this release needs")


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(map(str, names)))
