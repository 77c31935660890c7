"""Routes of topics, asked of the name servers and kept (docs/spec/remoting.md 4.4, 4.8).

A client stays with one name server until a request to it fails, then takes the next. After a
failure, and after code 1 (the name server has an incomplete view), the old route stays. If an
address is a broker's, the client asks the name servers with which this broker registers instead.

A broker answers the send that creates a topic before it has registered the topic. A name server
that does not know a topic is therefore no proof: the leaders are asked, and their word counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from cluster.client.config import ClientConfig
from cluster.client.connection.pool import Pool
from cluster.client.connection.shared_work import SharedWork
from cluster.errors import (
    ClusterError,
    ConnectionLost,
    NotConnected,
    RequestNotSupported,
    TopicNotFound,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import EMPTY, Frame
from cluster.protocol.headers import RouteRequest, TopicRequest, encode
from cluster.protocol.route import (
    BrokerData,
    QueueData,
    TopicRoute,
    decode_cluster_info,
    decode_route,
)
from cluster.protocol.topics import decode_topic_config

DEFAULT_TOPIC = "TBW102"
"""Its route names the brokers that create unknown topics by themselves (docs/spec/remoting.md
4.2)."""

DEFAULT_TOPIC_QUEUES_MAX = 4


class Routes:
    """Topic → route, and the newest data of every broker name."""

    def __init__(self, nameservers: Sequence[str], pool: Pool, config: ClientConfig) -> None:
        assert nameservers, "at least one name server"
        self._nameservers = list(nameservers)
        self._pool, self._config = pool, config
        self._routes: dict[str, TopicRoute] = {}
        self._asking: SharedWork[TopicRoute] = SharedWork()
        self._brokers_given: set[str] = set()  # as name servers, which they are not
        self.brokers: dict[str, BrokerData] = {}

    @property
    def topics(self) -> list[str]:
        """Topics with a known route."""
        return list(self._routes)

    def known(self, topic: str) -> TopicRoute | None:
        """The last known route, or None; asks no name server."""
        return self._routes.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The known route, or that of `refresh`. Raises as `refresh`."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> TopicRoute:
        """Ask for the route now; tasks that want the same topic share one request.

        Raises:
            TopicNotFound: no broker serves it.
            NotConnected: no name server answers.
        """
        return await self._asking.get(topic, lambda: self._ask_route(topic))

    async def registered_route(self, topic: str) -> TopicRoute:
        """As `refresh`, but from name servers alone: the route that all other clients get."""
        return await self._asking.get("registered " + topic, lambda: self._registered_route(topic))

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
                default = await self.registered_route(DEFAULT_TOPIC)
            except TopicNotFound:
                raise error from None
            return _narrowed(default)

    async def cluster(self) -> dict[str, BrokerData]:
        """Every broker name. Raises NotConnected."""
        answer = await self._ask(RequestCode.GET_BROKER_CLUSTER_INFO, EMPTY)
        found = decode_cluster_info(answer.body)
        self._note(found.values())
        return found

    async def registered(self) -> dict[str, BrokerData]:
        """As `cluster`. Raises NotConnected also when no broker is registered."""
        found = await self.cluster()
        if not found:
            raise NotConnected("no broker is registered; start one with `dledger up`")
        return found

    async def ask_nameserver(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Frame:
        """The answer of a name server. Raises NotConnected, or the exception of its refusal."""
        return await self._ask(code, ext, body)

    def _note(self, brokers: Iterable[BrokerData]) -> None:
        for data in brokers:
            known = self.brokers.get(data.broker_name)
            if known is None or data.term >= known.term:
                self.brokers[data.broker_name] = data
            self._ask_all_nodes_of(data)

    def _ask_all_nodes_of(self, data: BrokerData) -> None:
        """If a node answered in place of a name server, ask the others of its group after it.

        Then a client of a cluster without name servers outlives the node that it was given.
        """
        nodes = data.addresses.values()
        if self._nameservers[0] in nodes:
            self._nameservers += sorted(set(nodes) - set(self._nameservers))

    async def _ask_route(self, topic: str) -> TopicRoute:
        try:
            return await self._registered_route(topic)
        except TopicNotFound:
            route = await self._route_of_leaders(topic)
            if route is None:
                raise
        self._routes[topic] = route
        return route

    async def _registered_route(self, topic: str) -> TopicRoute:
        ask = encode(RouteRequest(topic))
        try:
            answer = await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, ask)
        except TopicNotFound:  # RocketMQ's sentence, which stock clients expect
            raise TopicNotFound(
                f"the topic {topic} does not exist; create it (dledger topic create {topic}), or "
                "look for its name (dledger topic list)"
            ) from None
        route = decode_route(answer.body)
        self._routes[topic] = route
        self._note(route.brokers)
        return route

    async def _route_of_leaders(self, topic: str) -> TopicRoute | None:
        """The route by the topic's settings at each broker name; None where none has the topic.

        A leader that cannot be asked within `replica_fallback` seconds, or may not tell this
        account, counts as one without it.
        """
        try:
            brokers = (await self.cluster()).values()
        except ClusterError:
            return None
        found = await asyncio.gather(*(self._queues_of(data, topic) for data in brokers))
        having = {queues.broker_name: queues for queues in found if queues is not None}
        if not having:
            return None
        reached = tuple(data for data in brokers if data.broker_name in having)
        return TopicRoute(reached, tuple(having[data.broker_name] for data in reached))

    async def _queues_of(self, data: BrokerData, topic: str) -> QueueData | None:
        if data.leader is None:
            return None
        ask = encode(TopicRequest(topic))
        try:
            async with asyncio.timeout(self._config.replica_fallback):
                answer = await self._ask_at(data.leader, RequestCode.GET_TOPIC_CONFIG, ask)
            row = decode_topic_config(answer.body)
        except (ClusterError, TimeoutError):
            return None
        return QueueData(
            data.broker_name,
            row.read_queue_count,
            row.write_queue_count,
            row.perm,
            row.topic_sys_flag,
        )

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
                # The connection ended while it was idle: name servers close idle ones.
                if connection.is_open:
                    raise
        connection = await self._pool.get(address)
        return await connection.ask(code, ext, body, time_limit=time_limit)

    async def _replace_broker(self, address: str, error: RequestNotSupported) -> None:
        """Replace a broker's address by its name servers. Raises `error` if it names no new one."""
        known: Sequence[str] = error.name_servers
        if not known:  # a stock RocketMQ broker does not name them in the refusal
            answer = await self._ask_at(address, RequestCode.GET_BROKER_CONFIG, EMPTY)
            known = _named(answer.body)
        self._brokers_given.add(address)  # never tried as a name server again, so this ends
        named = [place for place in known if place not in self._brokers_given]
        if not named:
            raise RequestNotSupported(
                f"{address} is a broker that registers with no name server; give the address of "
                "a name server, which usually listens on port 9876"
            ) from error
        others = [place for place in self._nameservers if place not in (address, *named)]
        self._nameservers[:] = [*named, *others]


def _named(config: bytes) -> list[str]:
    """The name servers in a broker's settings, which are lines `key=value`."""
    for line in config.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "namesrvAddr":
            return [place.strip() for place in value.split(";") if place.strip()]
    return []


def _narrowed(route: TopicRoute) -> TopicRoute:
    """The default topic's route with as many queues as an auto-created topic gets."""
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
