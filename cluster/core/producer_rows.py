"""The table of producers in a checkpoint.

    "producers":[[id, ms, stream, first, last, index, last index],…]
    "owners":[[place, id, ms, owner],…]     not in those of versions that kept no owners
    "departed":[[id, owner],…]             ids that were pushed out, null for nobody's; versions
                                           before wrote the owned ones only, or none
    "partly_known":[id,…]                  ids of which streams were forgotten
    "all_may_be_partly_known":bool         is an id that was pushed out missing in "departed"?

All oldest first, as producers are forgotten. An owner's `place` counts all producers: one that has
an owner and no numbers yet stands in no other row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dledger.producers.table import ProducerTable


def numbers_of(table: ProducerTable) -> list[Any]:
    """Rows of "producers"."""
    return [[producer, time_ms, stream, *run] for producer, time_ms, stream, run in table.export()]


def owners_of(table: ProducerTable) -> list[Any]:
    """Rows of "owners"."""
    return [list(row) for row in table.export_owners()]


def rows_of(table: ProducerTable) -> dict[str, Any]:
    """All of it, by the names in a checkpoint."""
    partly_known, all_may_be = table.export_partly_known()
    return {
        "producers": numbers_of(table),
        "owners": owners_of(table),
        "departed": [list(row) for row in table.export_departed()],
        "partly_known": partly_known,
        "all_may_be_partly_known": all_may_be,
    }


def restore(table: ProducerTable, checkpoint: Mapping[str, Any], *, ownerless: bool) -> None:
    """Inverse of `rows_of`, on a fresh table.

    A version before owners left "owners" out, and passed over the records that name them. With
    `ownerless` such a checkpoint is taken as it is: ids in it belong to the account that is next to
    store a message under them. Only for the state that deleted entries had led to, which the log
    cannot give again.

    Where nobody wrote down of which ids streams were forgotten, it is taken for all of them.

    Raises ValueError, KeyError or TypeError.
    """
    if "owners" not in checkpoint and not ownerless:
        raise ValueError("a version that kept no owners of producer ids wrote the checkpoint")
    for producer, time_ms, stream, first, last, index, last_index in checkpoint["producers"]:
        table.committed(producer, stream, first, index, time_ms, last - first + 1, last_index)
    table.restore_owners(checkpoint.get("owners", ()))
    table.restore_forgotten(
        checkpoint.get("departed", ()),
        checkpoint.get("partly_known"),
        all_may_be=checkpoint.get("all_may_be_partly_known", True),
    )
