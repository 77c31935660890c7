"""One connection per address, made when it is first needed."""

from __future__ import annotations

import asyncio

from cluster.client.config import ClientConfig
from cluster.client.connection import Connection, ServerRequest
from cluster.errors import ClientClosed, NotConnected


class Pool:
    """Connections of one client. Two tasks that want the same new one wait for the same attempt."""

    def __init__(self, config: ClientConfig, on_request: ServerRequest) -> None:
        self._config, self._on_request = config, on_request
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    def existing(self, address: str) -> Connection | None:
        """The open connection to an address, if there is one."""
        connection = self._open.get(address)
        return connection if connection is not None and connection.is_open else None

    async def get(self, address: str) -> Connection:
        """A connection to "host:port".

        Raises:
            NotConnected: it could not be reached in time.
            ClientClosed: the client was closed.
        """
        connection = self.existing(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ClientClosed("the client is closed; connect again")
        task = self._opening.get(address)
        if task is None:
            task = asyncio.ensure_future(self._connect(address))
            self._opening[address] = task
            task.add_done_callback(lambda _: self._opening.pop(address, None))
        return await asyncio.shield(task)

    def drop(self, address: str) -> None:
        """End the connection to an address at once: it does not answer."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.abort()

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in list(self._open.values()):
            connection.close()
        self._open.clear()

    async def _connect(self, address: str) -> Connection:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        source = (self._config.source_host, 0) if self._config.source_host else None
        try:
            async with asyncio.timeout(self._config.connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: Connection(address, self._on_request, self._lost),
                    host.strip("[]"),
                    int(port),
                    local_addr=source,
                )
        except (OSError, ValueError) as error:
            reason = str(error) or f"no answer in {self._config.connect_timeout:g} s"
            raise NotConnected(f"{address} could not be reached: {reason}") from error
        self._open[address] = connection
        return connection

    def _lost(self, connection: Connection) -> None:
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]
