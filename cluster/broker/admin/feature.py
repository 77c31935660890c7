"""The feature as the wiring sees it: made with the ports it needs; hands out its requests."""

from __future__ import annotations

from cluster.broker.admin import (
    leader_requests,
    member_requests,
    message_requests,
    queue_view,
    repair_requests,
    route_requests,
    topic_requests,
)
from cluster.broker.admin.figures import runtime
from cluster.broker.admin.groups import asking, connections, moving, progress, settings
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.requests import bind

#: Requests of administrators, by file.
TABLES = (
    asking.ROUTES,
    connections.ROUTES,
    leader_requests.ROUTES,
    member_requests.ROUTES,
    message_requests.ROUTES,
    moving.ROUTES,
    progress.ROUTES,
    queue_view.ROUTES,
    repair_requests.ROUTES,
    runtime.ROUTES,
    settings.ROUTES,
    topic_requests.ROUTES,
)


class Admin:
    """Requests of administrators; figures and housekeeping use the same ports.

    A node without name servers answers requests for routes, too.
    """

    def __init__(self, ports: AdminPorts) -> None:
        self.ports = ports
        own_routes = {} if ports.config.name_servers else route_requests.ROUTES
        self.handlers = bind(ports, own_routes, *TABLES)
