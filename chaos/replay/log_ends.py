"""The last entries of every node's log when a violation ended a simulated run: `logs.jsonl`.

    {"node": "n0", "entry": 41, "term": 3, "chain": "9c01b2aa", "value": "p0-14", "on_disk": true}

A run that ends early has no logs that replicas must agree on, so nothing is judged by these: they
show what stood where they differ. They are as the watch saw them last, of nodes that are down, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.sim.machine import BODY, BODY_SIZE, MAGIC, value_name
from chaos.sim.node import SimNode
from chaos.sim.watch import Watch, Written
from commitlog.records.record import HEADER_SIZE

FILE = "logs.jsonl"
AROUND = 5  # entries on either side of each log's end


def ends_of_logs(watch: Watch, nodes: Sequence[SimNode]) -> Iterator[dict[str, Any]]:
    """Rows by node: every log's entries around the end of each of them."""
    logs = {node: watch.entries_of(node) for node in nodes}
    ends = [len(entries) for entries, _ in logs.values()]
    shown = sorted({at for end in ends for at in range(max(0, end - AROUND), end + AROUND)})
    for node, (entries, flushed) in logs.items():
        for index in shown:
            if index < len(entries):
                yield _row(node, index, entries[index], on_disk=index <= flushed)


def _row(node: SimNode, index: int, entry: Written, *, on_disk: bool) -> dict[str, Any]:
    return {
        "node": node.id,
        "entry": index,
        "term": entry.term,
        "chain": f"{entry.chain_crc:08x}",
        "value": _value(node.view.raw(entry.position + HEADER_SIZE, BODY_SIZE)),
        "on_disk": on_disk,
    }


def _value(body: bytes) -> str:
    """Returns the value's name; "" for other bodies: a leader's first entry, a change of the
    group.
    """
    if len(body) < BODY_SIZE:
        return ""
    magic, producer, sequence, _ = BODY.unpack(body)
    return value_name(producer, sequence) if magic == MAGIC else ""
