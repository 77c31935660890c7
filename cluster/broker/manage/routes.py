"""All administrators' requests: code → who may answer and the function that does."""

from __future__ import annotations

from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.broker.consume import raw_ranges
from cluster.broker.kernel.net.requests import Route, table
from cluster.broker.manage import (
    leader_requests,
    member_requests,
    message_requests,
    queue_view,
    repair_requests,
    route_requests,
    topic_requests,
)
from cluster.broker.manage.broker import runtime
from cluster.broker.manage.groups import asking, connections, moving, progress, settings


def routes(config: BrokerConfig | None = None) -> dict[int, Route[Any]]:
    """The table; without name servers in `config` it has the requests for routes, too."""
    own_routes = route_requests.ROUTES if config is not None and not config.name_servers else {}
    return table(
        own_routes,
        asking.ROUTES,
        connections.ROUTES,
        leader_requests.ROUTES,
        member_requests.ROUTES,
        message_requests.ROUTES,
        moving.ROUTES,
        progress.ROUTES,
        queue_view.ROUTES,
        raw_ranges.ROUTES,
        repair_requests.ROUTES,
        runtime.ROUTES,
        settings.ROUTES,
        topic_requests.ROUTES,
    )
