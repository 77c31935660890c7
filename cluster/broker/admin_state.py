"""A picture of one broker for people, monitors and checkers: plain values only."""

from __future__ import annotations

import heapq
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cluster.broker.components import BrokerComponents
from cluster.core.transactions.halves import Outcome
from dledger.core.configuration import Standing
from dledger.core.status import NodeStatus, PeerStatus

DEAD_LETTER_GROUPS_MAX = 500
"""Groups whose dead letters are told: a monitor keeps a series for each."""


def snapshot(parts: BrokerComponents, address: str, *, failed: str = "") -> dict[str, Any]:
    """One object; indexes count entries from 0 (-1: none), positions and sizes are bytes."""
    return {
        "node_id": parts.config.node_id,
        "cluster_name": parts.config.cluster_name,
        "broker_name": parts.config.broker_name,
        "address": address,
        "advertised": parts.advertised,
        "process_id": os.getpid(),
        "started_ms": parts.started_ms,
        **_replica(parts, failed),
        **_clients(parts),
        **_counted(parts),
        "clock_skew_ms": parts.log.driver.clock.ahead_ms,
    }


def _replica(parts: BrokerComponents, failed: str) -> dict[str, Any]:
    """Role, disk, and how far log, state and queues are."""
    store, disk = parts.log.store, parts.log.disk
    node = parts.log.status()
    reads_by_lease, reads_by_index = parts.log.driver.replica.node.reads_served
    promised = parts.log.driver.hard.state
    return {
        "role": node.role.value,
        "serving": parts.leadership.serving.value,
        "term": node.term,
        "vote_term": promised.term,  # on disk: what a crash takes back was promised to nobody
        "voted_for": promised.voted_for or "",
        # Which copy of which folder this is (generation.py): [number, token], not a moment.
        "life": promised.incarnation,
        # It lost what it had promised, and takes no part until the group readmits it (R6).
        "forgot": promised.forgot,
        "generation": list(parts.log.driver.generation),
        "leader": node.leader,
        "leader_address": parts.leader_address(),
        "failed": failed or node.failure,
        "disk": disk.health.name.lower(),
        "disk_detail": disk.detail,
        "certificates": [one._asdict() for one in parts.admin_ports.certificates.ends()],
        "sync_seconds": round(disk.sync_seconds, 6),
        "reads_by_lease": reads_by_lease,
        "reads_by_index": reads_by_index,
        "configuration": _configuration(node),
        "margin": _margin(parts),
        "first_index": store.first_index,
        "first_position": store.first_position,
        "snapshot_index": parts.housekeeping.retention.beginning.snapshot_index,
        "last_index": node.last.index,
        "last_term": node.last.term,
        "flushed_index": node.flushed,
        "committed_index": node.commit,
        "no_op_index": node.noop_index,
        "applied_index": parts.log.applied,
        "dispatched_index": parts.derived.dispatched,
        "end_position": store.end_position,
        "dispatched_position": parts.state.position,
        "repair": _lists(asdict(parts.log.driver.repair_status)),
        "peers": _peers(parts, node.peers),
    }


def _configuration(node: NodeStatus) -> dict[str, Any]:
    """The group as the newest configuration in this replica's log has it, committed or not.

    `index`: of its entry, -1 before any. `returning`: in the size of the quorum, never counted.
    """
    return {
        "index": node.configuration_index,
        "voters": list(node.configuration.voters),
        "returning": [
            member.node_id
            for member in node.configuration.members
            if member.standing is Standing.RETURNING
        ],
    }


def _margin(parts: BrokerComponents) -> dict[str, Any] | None:
    """How many more members may fail now; None of a node that does not lead, which cannot know."""
    found = parts.log.driver.replica.node.margin()
    return None if found is None else found._asdict()


def _clients(parts: BrokerComponents) -> dict[str, Any]:
    """Topics, waiting messages, and connected clients."""
    return {
        "topics": len(parts.state.topics),
        "groups": len(parts.state.groups),
        "half_messages": len(parts.state.halves),
        "delayed_messages": len(parts.state.delayed),
        "consumer_groups": {
            name: sorted(group.members) for name, group in parts.registry.consumer_groups()
        },
        "producer_groups": {
            name: sorted(members) for name, members in parts.registry.producer_groups()
        },
        "groups_disagreeing": parts.registry.watch.disagreeing,
        "client_ids_shared": parts.registry.watch.shared,
        "connections": len(parts.server.connections),
        "closed_ports": dict(parts.server.closed_ports),
        "closed_relay_ports": dict(parts.server.closed_relay_ports),
        "forward_links": len(parts.links),
        "long_polls": parts.polls.count,
    }


def _counted(parts: BrokerComponents) -> dict[str, Any]:
    """Counters since the node started, and the requests in flight."""
    return {
        "in_flight": {
            "records": parts.appender.in_flight_count,
            "bytes": parts.appender.in_flight_bytes,
        },
        "messages_in": parts.sends.context.messages,
        "bytes_in": parts.sends.context.bytes,
        "sends_refused": parts.sends.context.refused,
        "signatures_refused": parts.access.refused,
        "quota_refusals": dict(parts.access.quotas.refused),
        "mistakes": parts.owned.mistakes,
        "records_passed_over": parts.state.unreadable,
        "commits": parts.transactions.counts[Outcome.COMMITTED],
        "rollbacks": parts.transactions.counts[Outcome.ROLLED_BACK],
        "dead_letters": _dead_letters(parts),
        "sends_closed": parts.disk.refuse_sends() is not None,
        "messages_out": parts.queues.messages,
        "bytes_out": parts.queues.bytes,
        "durability": parts.config.durability,
        "acknowledged": {
            level.value: count for level, count in parts.appender.acknowledged.items()
        },
        "batches": parts.appender.batches,
        "records": parts.appender.records,
        "checkpoints": parts.housekeeping.checkpoints,
        "disk_used_ratio": round(parts.disk.used_ratio, 4),
        "relay_port": parts.config.relay_port,
        "sends_through_relays": parts.server.relayed,
        "notifications": parts.notices.sent,
        "forwarded": parts.links.forwarded,
        "forwarded_bytes": parts.links.forwarded_bytes,
        "registrations": parts.registrar.registrations,
        "registration_failures": parts.registrar.failures,
    }


def _dead_letters(parts: BrokerComponents) -> dict[str, int]:
    """Group → messages that it gave up while this node led; of many groups those with most."""
    totals = parts.admin_ports.statistics.dead_letters
    most = heapq.nlargest(DEAD_LETTER_GROUPS_MAX, totals, key=lambda group: totals[group])
    return {group: totals[group] for group in sorted(most)}


def _lists(values: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, as they come back from JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _peers(parts: BrokerComponents, peers: Sequence[PeerStatus]) -> list[dict[str, Any]]:
    """The leader's view of its followers."""
    return [
        {
            "node_id": peer.node_id,
            "mode": peer.mode,
            "matched_index": peer.matched,
            "flushed_index": peer.flushed,
            "in_flight_bytes": peer.in_flight_bytes,
            "disk": parts.log.disk_of(peer.node_id),
        }
        for peer in peers
    ]
