"""The audit logs of a cluster, read page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.protocol.audit_headers import ListAuditRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import read_answer


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries of one broker name's audit log.

    Attributes:
        rows: as request 31020 has them (cluster/broker/admin/audit/requests.py), and `broker`.
        following: the number to go on behind; None: there is nothing more.
    """

    rows: list[dict[str, Any]]
    following: int | None


async def audit_page(
    instance: ClientInstance,
    broker: str,
    *,
    count: int = 50,
    before: int | None = None,
    after: int | None = None,
    since_ms: int | None = None,
    account: str | None = None,
    target: str | None = None,
    outcome: str | None = None,
) -> AuditPage:
    """One page of a broker name: the newest first; with `after`, the oldest first.

    Args:
        before: those with lower numbers only.
        after: those with higher numbers only.
        since_ms: those of that time (ms since 1970) or later.
        account: those of that access key.
        target: those with this text in their target.
        outcome: done, begun or refused.

    Raises RequestNotSupported from a broker without an audit log, Unauthorized, ClusterError.
    """
    request = ListAuditRequest(count, before, after, since_ms, account, target, outcome, broker)
    answer = await ask_leader(
        instance, broker, DEFAULT_TOPIC, RequestCode.LIST_AUDIT, encode(request)
    )
    found = read_answer(answer.body, "audit entries")
    rows = [{"broker": broker, **row} for row in found["rows"]]
    return AuditPage(rows, found["next"])
