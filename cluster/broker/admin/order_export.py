"""consumerOrderInfo.json: ordered pops in RocketMQ's shape. An export only.

Source: docs/spec/store.md 5.4.
"""

from __future__ import annotations

from typing import Any

from cluster.core.pop.ordered import OrderRow, OrderTable


def consumer_order_file(table: OrderTable) -> dict[str, Any]:
    """topic@group → queue id → the messages given last, and which of them are acknowledged."""
    topics: dict[str, dict[int, Any]] = {}
    for place, row in table.rows():
        topics.setdefault(f"{place.topic}@{place.group}", {})[place.queue] = _bean(row)
    return {"table": topics}


def _bean(row: OrderRow) -> dict[str, Any]:
    """`o`: the first offset, then distances from it; `cm`: bit i is set when message i is acked."""
    taken = row.taken
    first, *others = taken.offsets
    bits = sum(1 << i for i, offset in enumerate(taken.offsets) if offset not in row.left)
    return {
        "a": taken.attempt,
        "cm": bits,
        "i": taken.invisible_ms,
        "l": taken.pop_ms,
        "o": [first, *(offset - first for offset in others)],
        "oc": row.counts,
        "ot": row.visible_ms,
        "popTime": taken.pop_ms,
    }
