"""Routes of topics, asked of the name servers and kept (docs/spec/remoting.md 4.4, 4.8).

A client stays with one name server until that fails, then takes the next. On code 1 (an incomplete
view) and on failures the old route stays. An address that turns out to be a broker's gives way to
the name servers that this broker registers with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.client.config import ClientConfig
from cluster.client.pool import Pool
from cluster.client.shared import Shared
from cluster.errors import (
    ClusterError,
    ConnectionLost,
    NotConnected,
    RequestNotSupported,
    TopicNotFound,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.headers import RouteRequest, encode
from cluster.protocol.route import BrokerData, TopicRoute, decode_cluster_info, decode_route

DEFAULT_TOPIC = "TBW102"
"""The topic whose route says where unknown topics may be created (docs/spec/remoting.md 4.2)."""

DEFAULT_TOPIC_QUEUES_MAX = 4


class Routes:
    """Topic → route, and the newest data of every broker name."""

    def __init__(self, nameservers: Sequence[str], pool: Pool, config: ClientConfig) -> None:
        assert nameservers, "at least one name server"
        self._nameservers = list(nameservers)
        self._pool, self._config = pool, config
        self._routes: dict[str, TopicRoute] = {}
        self._asking: Shared[TopicRoute] = Shared()
        self._brokers_given: set[str] = set()  # as name servers, which they are not
        self.brokers: dict[str, BrokerData] = {}

    @property
    def topics(self) -> list[str]:
        """Topics whose routes are kept."""
        return list(self._routes)

    def known(self, topic: str) -> TopicRoute | None:
        """The route as it was told last, without asking."""
        return self._routes.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The route, asked for when it is not known. Raises as `refresh`."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """Ask for the route now; tasks that ask for the same topic share one question.

        Raises:
            TopicNotFound: no broker serves it.
            NotConnected: no name server answers.
        """
        return await self._asking.get(topic, lambda: self._ask_route(topic))

    async def for_producing(self, topic: str) -> TopicRoute:
        """The route of a topic, or the one under which it will be created by the first send.

        Raises:
            TopicNotFound: it does not exist and is not created by itself.
            NotConnected: no name server answers.
        """
        try:
            return await self.get(topic)
        except TopicNotFound as error:
            try:
                default = await self.refresh(DEFAULT_TOPIC)
            except TopicNotFound:
                raise error from None
            return _narrowed(default)

    async def cluster(self) -> dict[str, BrokerData]:
        """Every broker name. Raises NotConnected."""
        answer = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO, EMPTY)
        found = decode_cluster_info(answer.body)
        for data in found.values():
            self._note(data)
        return found

    async def registered(self) -> dict[str, BrokerData]:
        """The same, where there must be one. Raises NotConnected."""
        found = await self.cluster()
        if not found:
            raise NotConnected("no broker is registered; start one with `dledger up`")
        return found

    async def ask_nameserver(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Frame:
        """One question to the name servers. Raises its exception, or NotConnected."""
        return await self._ask(code, ext, body)

    def _note(self, data: BrokerData) -> None:
        known = self.brokers.get(data.broker_name)
        if known is None or data.term >= known.term:
            self.brokers[data.broker_name] = data

    async def _ask_route(self, topic: str) -> TopicRoute:
        answer = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, encode(RouteRequest(topic)))
        route = decode_route(answer.body)
        self._routes[topic] = route
        for data in route.brokers:
            self._note(data)
        return route

    async def _ask(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Frame:
        problem: ClusterError | None = None
        failures = 0
        while failures < len(self._nameservers):
            address = self._nameservers[0]
            try:
                return await self._ask_at(address, code, ext, body)
            except RequestNotSupported as error:
                await self._replace_broker(address, error)
            except TopicNotFound:
                raise
            except ClusterError as error:
                if not error.retriable:
                    raise
                problem = error
                failures += 1
                if address in self._nameservers:
                    self._nameservers.remove(address)
                    self._nameservers.append(address)
        why = problem.happened if problem else "none is known"
        raise NotConnected(
            f"no name server answers ({', '.join(self._nameservers)}): {why}"
        ) from problem

    async def _ask_at(
        self, address: str, code: int, ext: Mapping[str, str], body: bytes = b""
    ) -> Frame:
        time_limit = self._config.request_timeout
        connection = self._pool.existing(address)
        if connection is not None:
            try:
                return await connection.ask(code, ext, body, time_limit=time_limit)
            except ConnectionLost:
                # It ended while we were silent, and nobody looked: name servers close such ones.
                if connection.is_open:
                    raise
        connection = await self._pool.get(address)
        return await connection.ask(code, ext, body, time_limit=time_limit)

    async def _replace_broker(self, address: str, error: RequestNotSupported) -> None:
        """Take its name servers instead. Raises `error` when it names none that are new."""
        known: Sequence[str] = error.name_servers
        if not known:  # a RocketMQ broker does not say
            answer = await self._ask_at(address, RequestCode.GET_BROKER_CONFIG, EMPTY)
            known = _named(answer.body)
        self._brokers_given.add(address)  # never taken for a name server again: this ends
        named = [place for place in known if place not in self._brokers_given]
        if not named:
            raise RequestNotSupported(
                f"{address} is a broker that registers with no name server; give the address of "
                "a name server, which usually listens on port 9876"
            ) from error
        others = [place for place in self._nameservers if place not in (address, *named)]
        self._nameservers[:] = [*named, *others]


def _named(config: bytes) -> list[str]:
    """Name servers in a broker's settings, lines `key=value`."""
    for line in config.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "namesrvAddr":
            return [place.strip() for place in value.split(";") if place.strip()]
    return []


def _narrowed(route: TopicRoute) -> TopicRoute:
    """A default route with as many queues as an auto-created topic gets."""
    queues = tuple(
        type(data)(
            data.broker_name,
            min(data.read_queue_count, DEFAULT_TOPIC_QUEUES_MAX),
            min(data.write_queue_count, DEFAULT_TOPIC_QUEUES_MAX),
            data.perm,
        )
        for data in route.queues
    )
    return TopicRoute(route.brokers, queues)
