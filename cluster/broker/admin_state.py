"""A picture of one broker for people, monitors and checkers: plain values only."""

from __future__ import annotations

from typing import Any

from cluster.broker.wiring import Parts


def snapshot(parts: Parts, address: str, *, failed: str = "") -> dict[str, Any]:
    """One object; indexes count entries from 0 (-1: none), positions and sizes are bytes."""
    services = parts.services
    node = parts.log.status()
    store = parts.log.store
    leadership = services.leadership
    return {
        "node_id": parts.config.node_id,
        "cluster_name": parts.config.cluster_name,
        "broker_name": parts.config.broker_name,
        "address": address,
        "advertised": parts.advertised,
        "role": node.role.value,
        "serving": leadership.serving.value,
        "term": node.term,
        "leader": node.leader,
        "leader_address": services.leader_address(),
        "failed": failed or node.failure,
        "first_index": store.first_index,
        "last_index": node.last.index,
        "last_term": node.last.term,
        "flushed_index": node.flushed,
        "committed_index": node.commit,
        "applied_index": parts.log.applied,
        "dispatched_index": services.derived.dispatched,
        "end_position": store.end_position,
        "dispatched_position": services.state.position,
        "peers": [
            {
                "node_id": peer.node_id,
                "mode": peer.mode,
                "matched_index": peer.matched,
                "flushed_index": peer.flushed,
                "in_flight_bytes": peer.in_flight_bytes,
            }
            for peer in node.peers
        ],
        "in_flight": {
            "records": parts.appender.in_flight_count,
            "bytes": parts.appender.in_flight_bytes,
        },
        "topics": len(services.state.topics),
        "consumer_groups": {
            name: sorted(group.members) for name, group in services.registry.consumer_groups()
        },
        "producer_groups": {
            name: sorted(members) for name, members in services.registry.producer_groups()
        },
        "connections": len(parts.server.connections),
        "forward_links": len(parts.links),
        "long_polls": parts.polls.count,
        "messages_in": services.sends.messages,
        "sends_refused": services.sends.refused,
        "messages_out": services.pulls.messages,
        "bytes_out": services.pulls.bytes,
        "batches": parts.appender.batches,
        "records": parts.appender.records,
        "checkpoints": parts.housekeeping.checkpoints,
        "disk_used_ratio": round(parts.housekeeping.disk_used_ratio, 4),
        "registrations": parts.registrar.registrations,
        "registration_failures": parts.registrar.failures,
        "clock_skew_ms": parts.tables.clock.skew_ms,
    }
