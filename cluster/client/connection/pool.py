"""One connection per address, dialled when a request first needs it."""

from __future__ import annotations

import asyncio
import ssl

from cluster.client.config import ClientConfig
from cluster.client.connection.connection import Connection, ServerRequest
from cluster.client.connection.shared_work import SharedWork
from cluster.client.connection.signed_connection import SignedConnection
from cluster.errors import ClientClosed, NotConnected, NotTrusted
from commitlog.address import split_address

GOODBYE_SECONDS_MAX = 1.0
"""How long `close` waits for queued bytes and TLS's closing handshake before it cuts."""

_OUT_OF_TIME = (9, 10)
"""OpenSSL's codes for a certificate that is not good yet, and for one that has ended."""


class Pool:
    """Connections of one client. Tasks that want the same new connection share one attempt."""

    def __init__(self, config: ClientConfig, on_request: ServerRequest) -> None:
        self._config, self._on_request = config, on_request
        self._open: dict[str, Connection] = {}
        self._opening: SharedWork[Connection] = SharedWork()
        self._closed = False
        self._emptied: asyncio.Future[None] | None = None
        self._tls = config.tls.context() if config.tls is not None else None

    def existing(self, address: str) -> Connection | None:
        """The open connection to `address`, or None."""
        connection = self._open.get(address)
        return connection if connection is not None and connection.is_open else None

    async def get(self, address: str) -> Connection:
        """A connection to "host:port".

        Raises:
            NotConnected: the address could not be reached in `connect_timeout` seconds.
            NotTrusted: no authority that this client knows signed the server's certificate.
            ClientClosed: the client was closed.
        """
        connection = self.existing(address)
        if connection is not None:
            return connection
        if self._closed:
            raise ClientClosed("the client is closed; connect again")
        return await self._opening.get(address, lambda: self._connect(address))

    def drop(self, address: str) -> None:
        """Cut the connection to `address`, because the broker does not answer."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.abort()

    async def close(self) -> None:
        """Close all connections; cut those that are still open after `GOODBYE_SECONDS_MAX`."""
        self._closed = True
        await self._opening.close()
        for connection in list(self._open.values()):
            connection.close()
        if self._open:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=GOODBYE_SECONDS_MAX)
        for connection in list(self._open.values()):
            connection.abort()
        self._open.clear()

    async def _connect(self, address: str) -> Connection:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        source = (self._config.source_host, 0) if self._config.source_host else None
        try:
            async with asyncio.timeout(self._config.connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: self._make(address),
                    host,
                    port,
                    local_addr=source,
                    ssl=self._tls,
                )
        except ssl.SSLCertVerificationError as error:
            advice = (
                "renew it (dledger tls renew), or set the clock of this machine"
                if error.verify_code in _OUT_OF_TIME
                else "give its authority, or allow any host if the authority names another one"
            )
            raise NotTrusted(
                f"{address} shows a certificate that is not believed ({error.verify_message}); "
                f"{advice}"
            ) from error
        except (OSError, ValueError) as error:
            reason = str(error) or f"no answer in {self._config.connect_timeout:g} s"
            raise NotConnected(f"{address} could not be reached: {reason}") from error
        self._open[address] = connection
        return connection

    def _make(self, address: str) -> Connection:
        account = self._config.account
        if account is None:
            return Connection(address, self._on_request, self._lost)
        return SignedConnection(address, self._on_request, self._lost, account)

    def _lost(self, connection: Connection) -> None:
        if self._open.get(connection.address) is connection:
            del self._open[connection.address]
            if not self._open and self._emptied is not None and not self._emptied.done():
                self._emptied.set_result(None)
