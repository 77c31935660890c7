"""The leader of each broker name, found again within a fraction of a second.

    connection(broker)   the connection to the address that is known to lead
    with `look`          that address failed or does not lead: ask for a newer one

Three sources name a leader, and the first one counts: the name servers' routes (a new leader
registers at once), the hint in a refusal, and the notice that a broker pushes (code 31010). Without
news from any of them for `replica_fallback` seconds, the client takes another replica, which passes
requests on to its leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster.client.config import ClientConfig
from cluster.client.connection.connection import Connection
from cluster.client.connection.pool import Pool
from cluster.client.routing.routes import DEFAULT_TOPIC, Routes
from cluster.errors import ClusterError, NotConnected, TopicNotFound
from cluster.protocol.route import BrokerData


class Leaders:
    """Broker name → connection to its leader."""

    def __init__(self, routes: Routes, pool: Pool, config: ClientConfig) -> None:
        self._routes, self._pool, self._config = routes, pool, config
        self._chosen: dict[str, str] = {}
        self._suspects: dict[str, tuple[str, int]] = {}
        self._hints: dict[str, str] = {}
        self._doubted: set[str] = set()
        self._rotation = -1
        self._asking: dict[str, asyncio.Task[None]] = {}
        self.on_change: list[Callable[[str], None]] = []

    def address(self, broker_name: str) -> str | None:
        """The address to which requests to this broker name go now; None before any is known."""
        return self._chosen.get(broker_name) or self._registered(broker_name)

    @property
    def detours(self) -> list[str]:
        """Broker names with an unreachable leader, so that a replica passes requests on."""
        return list(self._chosen)

    def existing(self, broker_name: str) -> Connection | None:
        """The open connection to the leader, or None if one must be dialled first."""
        address = self.address(broker_name)
        return self._pool.existing(address) if address else None

    def suspect(self, broker_name: str, address: str) -> None:
        """Avoid `address`, because it does not answer.

        It is used again when it leads a newer term, or when no other replica is known for
        `replica_fallback` seconds.
        """
        if self._chosen.get(broker_name) == address:
            del self._chosen[broker_name]
        self._suspects[broker_name] = (address, self._term(broker_name))

    def doubt(self, broker_name: str) -> None:
        """Ask for the leader before the next request: a node answered that does not lead.

        One that was started again on an empty folder knows no leader, and would be asked for ever.
        """
        self._doubted.add(broker_name)

    def hint(self, broker_name: str, leader: str) -> None:
        """Ask `leader` next, because a refusal named it."""
        self._hints[broker_name] = leader
        self._chosen.pop(broker_name, None)

    def told(self, broker_name: str, leader: str, term: int) -> None:
        """Take pushed news: `leader` leads since `term`. An older term is ignored."""
        known = self._routes.brokers.get(broker_name)
        if known is not None and term < known.term:
            return
        addresses = {0: leader}
        if known is not None:
            others = [place for place in known.addresses.values() if place != leader]
            addresses |= {number + 1: place for number, place in enumerate(others)}
        cluster = known.cluster if known else ""
        self._routes.brokers[broker_name] = BrokerData(broker_name, cluster, addresses, term=term)
        self._chosen.pop(broker_name, None)
        self._suspects.pop(broker_name, None)
        self._changed(broker_name)

    def ask_news(self, broker_name: str, topic: str) -> None:
        """Ask for the leader in the background, one question at a time, and call `on_change`."""
        if broker_name not in self._asking:
            task = asyncio.ensure_future(self._ask_news(broker_name, topic))
            self._asking[broker_name] = task
            task.add_done_callback(lambda _: self._asking.pop(broker_name, None))

    async def close(self) -> None:
        """Cancel the background questions."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def connection(
        self, broker_name: str, topic: str = DEFAULT_TOPIC, *, look: bool = False
    ) -> Connection:
        """A connection to the leader of this broker name, or to a replica that passes on.

        Args:
            topic: its route names the leader.
            look: ask for the leader although a connection is open, because a request failed.

        Raises:
            NotConnected: none of the replicas can be reached now; try again after a pause.
        """
        look = look or broker_name in self._doubted
        self._doubted.discard(broker_name)
        existing = self.existing(broker_name)
        doubted = existing is None or self._is_suspect(broker_name, existing.address)
        if existing is not None and not (look or doubted):
            return existing
        loop = asyncio.get_running_loop()
        fallback_at = loop.time() + self._config.replica_fallback
        while True:  # ends after `replica_fallback` seconds at the latest
            hint = self._hints.pop(broker_name, None)
            candidates = [hint] if hint else []
            registered = await self._ask_registered(broker_name, topic)
            if registered and not self._is_suspect(broker_name, registered):
                candidates.append(registered)
            is_late = loop.time() >= fallback_at
            if is_late:
                candidates += self._replicas(broker_name)
            found = await self._first_reachable(candidates)
            if found is not None:
                if found.address == self._registered(broker_name):
                    self._chosen.pop(broker_name, None)
                else:
                    self._chosen[broker_name] = found.address
                self._suspects.pop(broker_name, None)
                return found
            if is_late:
                self._suspects.pop(broker_name, None)
                if not candidates:
                    raise NotConnected(
                        f"the name servers know no broker name {broker_name}; check it, or wait "
                        "until its brokers have registered"
                    )
                raise NotConnected(
                    f"no replica of {broker_name} can be reached ({', '.join(candidates)})"
                )
            await asyncio.sleep(self._config.retry_pause)

    async def _ask_news(self, broker_name: str, topic: str) -> None:
        before = self._registered(broker_name), self._term(broker_name)
        await self._ask_registered(broker_name, topic)
        registered = self._registered(broker_name)
        is_back = (
            registered is not None
            and self._chosen.get(broker_name, registered) != registered
            and not self._is_suspect(broker_name, registered)
            and await self._first_reachable([registered]) is not None
        )
        if is_back or (registered, self._term(broker_name)) != before:
            self._chosen.pop(broker_name, None)
            self._changed(broker_name)

    def _changed(self, broker_name: str) -> None:
        for listener in self.on_change:
            listener(broker_name)

    def _term(self, broker_name: str) -> int:
        data = self._routes.brokers.get(broker_name)
        return data.term if data else -1

    def _is_suspect(self, broker_name: str, address: str) -> bool:
        suspect = self._suspects.get(broker_name)
        return suspect is not None and suspect == (address, self._term(broker_name))

    def _registered(self, broker_name: str) -> str | None:
        data = self._routes.brokers.get(broker_name)
        return data.leader if data else None

    def _replicas(self, broker_name: str) -> list[str]:
        data = self._routes.brokers.get(broker_name)
        if data is None:
            return []
        places = list(dict.fromkeys(data.addresses.values()))
        self._rotation += 1  # a replica that knows no leader must not be asked for ever
        turn = self._rotation % len(places) if places else 0
        places = places[turn:] + places[:turn]
        return sorted(places, key=lambda place: self._is_suspect(broker_name, place))

    async def _ask_registered(self, broker_name: str, topic: str) -> str | None:
        """The leader as the name servers have it; the last known one if none answers."""
        try:
            try:
                await self._routes.refresh(topic)
            except TopicNotFound:  # about to be created by a first send
                await self._routes.cluster()
        except ClusterError:
            await asyncio.sleep(self._config.retry_pause)
        return self._registered(broker_name)

    async def _first_reachable(self, candidates: list[str]) -> Connection | None:
        for address in dict.fromkeys(candidates):
            try:
                return await self._pool.get(address)
            except NotConnected:
                continue
        return None
