"""A broker node's admin HTTP: its readiness, its snapshot as metrics, and the console."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cluster.broker.admin.groups.lags import GroupLags
from cluster.broker.admin.readiness import not_ready
from cluster.broker.node import BrokerNode
from cluster.client import Client, ClientConfig, Tls, connect
from cluster.client.config import read_account
from cluster.console.api.roles import Role, Tokens
from cluster.settings.node import AdminConfig
from dledger.config import TlsMode

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from cluster.broker.admin.admin_http import AdminServer


def _import_http() -> None:
    importlib.import_module("cluster.broker.admin.admin_http")
    importlib.import_module("cluster.console.http")
    importlib.import_module("cluster.metrics.collector")


class NodeAdmin:
    """The `AdminSource` of one node, and its server while it runs."""

    def __init__(
        self, node: BrokerNode, config: AdminConfig, settings: Sequence[Mapping[str, object]] = ()
    ) -> None:
        """`settings`: all of the node's with their origins, as the console shows them."""
        self._node, self._config, self._settings = node, config, settings
        self._server: AdminServer | None = None
        self._registry: CollectorRegistry | None = None
        self._lags: GroupLags | None = None

    async def start(self) -> None:
        """Listen, if an address is configured. Raises OSError when it is taken."""
        if self._config.listen is None:
            return
        # Imported here, in a thread: it takes a third of a second, in which the node already takes
        # part in elections, and only a node's own process pays for it.
        await asyncio.to_thread(_import_http)
        from prometheus_client import CollectorRegistry

        from cluster.broker.admin.admin_http import AdminServer
        from cluster.console.api.source import Source
        from cluster.console.http import Console
        from cluster.metrics.collector import StatusCollector

        self._registry = CollectorRegistry()
        self._registry.register(StatusCollector(self.status, lambda: self._group_lags().lags))
        owned = self._node.parts.owned
        runs = self._config.chaos_runs
        source = Source(self._connect, self.status, self._settings, runs)
        console = Console(source, self._tokens())
        self._server = AdminServer(self, *self._config.listen, owned=owned, pages=console)
        await self._server.start()

    def _tokens(self) -> Tokens:
        roles = {"token": Role.ADMIN, "operator_token": Role.OPERATOR, "viewer_token": Role.VIEWER}
        return Tokens({roles[name]: token for name, token in self._config.tokens().items()})

    def _connect(self) -> Client:
        """A client of this node, which leads it to the whole cluster.

        Raises ClientConfigError for an account file that cannot be read.
        """
        broker = self._node.config
        tls = None
        if TlsMode(broker.tls_mode) is TlsMode.ENFORCING:
            # It dials itself and its peers, whose certificates need not name their addresses.
            authority = broker.tls_client_authority or broker.tls_certificate or ""
            own = broker.tls_certificate or "", broker.tls_key or ""
            tls = Tls(authority, check_host=False, certificate=own[0], key=own[1])
        file = self._config.account_file
        account = None if file is None else read_account(file)
        return connect(self._node.address, ClientConfig(account=account, tls=tls))

    async def close(self) -> None:
        """Stops the HTTP server, if it runs; requests under way get a limited time to end."""
        if self._server is not None:
            await self._server.close()

    @property
    def registry(self) -> CollectorRegistry:
        """The metrics of this node. Only after `start`."""
        assert self._registry is not None, "not started"
        return self._registry

    def status(self) -> Mapping[str, Any]:
        """The node's status, as /api/v1/status shows it. Only while the node is open."""
        return self._node.status()

    async def look(self) -> None:
        """Brings the consumer groups' lags up to date for a scrape, at most once a second."""
        await self._group_lags().look()

    def _group_lags(self) -> GroupLags:
        """The lags of the broker as it is now: a node that opens again has other parts."""
        ports = self._node.parts.admin_ports
        if self._lags is None or self._lags.ports is not ports:
            self._lags = GroupLags(ports)
        return self._lags

    def not_open(self) -> str:
        """The reason why there is no status now, or "": a node that loads a state has none."""
        return "" if self._node.is_open else "this node loads the state that its leader sent"

    def not_healthy(self) -> str:
        """The reason why this replica stopped, or "" while it works."""
        return str(self.status()["failed"])

    def not_ready(self) -> str:
        """The reason why clients are not served here now, or ""; see readiness.py."""
        return not_ready(
            self.status(),
            lag_max=self._config.ready_lag_max,
            has_name_servers=bool(self._node.config.name_servers),
        )
