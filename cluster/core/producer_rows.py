"""The table of producers in a checkpoint.

    "producers":[[id, ms, stream, first, last, index, last index],…]
    "owners":[[place, id, ms, owner],…]                             not in those of earlier versions

Both oldest first, as producers are forgotten. An owner's `place` counts all producers: one that has
an owner and no numbers yet stands in no other row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dledger.producers import ProducerTable


def numbers_of(table: ProducerTable) -> list[Any]:
    """Rows of "producers"."""
    return [[producer, time_ms, stream, *run] for producer, time_ms, stream, run in table.export()]


def owners_of(table: ProducerTable) -> list[Any]:
    """Rows of "owners"."""
    return [list(row) for row in table.export_owners()]


def restore(table: ProducerTable, checkpoint: Mapping[str, Any]) -> None:
    """Inverse of both, on a fresh table. Raises ValueError, KeyError or TypeError."""
    for producer, time_ms, stream, first, last, index, last_index in checkpoint["producers"]:
        table.committed(producer, stream, first, index, time_ms, last - first + 1, last_index)
    table.restore_owners(checkpoint.get("owners", ()))
