"""Leaders that a replica has seen: 31022. Any replica answers, from its own list.

    {"node": "n1", "since_ms": 1795750000000,
     "rows": [{"at_ms": 1795750001000, "term": 3, "leader": "n0", "why": "not-heard"}]}

The newest row is the last one; see cluster/core/lead_history.py. lead_file.py keeps them on disk.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.protocol.codes import RequestCode
from cluster.protocol.replica_headers import ListLeadersRequest


def list_leaders(ports: AdminPorts, call: Call, request: ListLeadersRequest) -> None:
    """31022."""
    leads = ports.leads
    body = {
        "node": ports.config.node_id,
        "since_ms": leads.since_ms,
        "rows": [asdict(row) for row in leads.rows],
    }
    call.answer(0, body=orjson.dumps(body))


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.LIST_LEADERS: Handler(Who.ANYWHERE, fields(ListLeadersRequest), ADMIN, list_leaders)
}
