"""consumerFilter.json: SQL92 subscriptions in RocketMQ's shape. An export only.

Source: docs/spec/store.md 5.4.
"""

from __future__ import annotations

from typing import Any

from cluster.core.filter_bits import FilterBits, Registered


def consumer_filter_file(filters: FilterBits) -> dict[str, Any]:
    """Every registered expression, by topic and group."""
    topics: dict[str, dict[str, Any]] = {}
    for row in filters.rows():
        topics.setdefault(row.topic, {})[row.group] = _bean(row, filters.bloom.m)
    return {
        "filterDataByTopic": {
            topic: {"groupFilterData": groups, "topic": topic} for topic, groups in topics.items()
        }
    }


def _bean(row: Registered, bits: int) -> dict[str, Any]:
    return {
        "bloomFilterData": {"bitNum": bits, "bitPos": list(row.positions)},
        "bornTime": row.born_ms,
        "clientVersion": row.version,
        "consumerGroup": row.group,
        "dead": row.dead_ms != 0,
        "deadTime": row.dead_ms,
        "expression": row.text,
        "expressionType": "SQL92",
        "topic": row.topic,
    }
