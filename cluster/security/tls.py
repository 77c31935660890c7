"""TLS on the ports that clients dial: the first byte tells (docs/spec/remoting.md 1.5).

    0x16        a ClientHello                        ─► TlsLayer ─► connection
    0x00, 0x01  the high byte of a frame's length    ─► connection, unless TLS is enforced
    other       nothing we know: closed

The layer keeps the handshake and the records; what stands behind it sees an ordinary transport. One
thread, no copy of asyncio's own TLS: bytes that were read before TLS was known are fed to it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from dledger.config import TlsMode
from dledger.runtime.complaints import Complaints
from dledger.runtime.watched_files import WatchedFiles

HANDSHAKE_SECONDS_MAX = 10.0  # RocketMQ's Netty default; bounds what a silent client holds
READ_SIZE = 256 * 1024  # plain bytes taken from the layer at once

_CLIENT_HELLO = 0x16
_FRAME_STARTS = (0x00, 0x01)
_log = logging.getLogger(__name__)


def server_context(certificate: Path, key: Path, client_authority: Path | None) -> ssl.SSLContext:
    """A context for the client port; with `client_authority` clients must show a certificate.

    Raises OSError or ssl.SSLError, which name the file that is wrong.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        if client_authority is not None:
            context.load_verify_locations(client_authority)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise ssl.SSLError(
            f"certificate {certificate} and key {key} cannot be used ({error}); give a PEM chain "
            "and its unencrypted key"
        ) from None
    return context


class DialTls:
    """For dialling another node: it shows a certificate that `authority` signed, or our own one.

    Nodes are told apart by the cluster secret; names in certificates say nothing about them. New
    files count from the next connection on. Raises OSError or ssl.SSLError for files that cannot
    be used.
    """

    def __init__(self, certificate: str | None, key: str | None, authority: str | None) -> None:
        assert certificate, "the settings were checked"
        assert key, "the settings were checked"
        self._certificate, self._key, self._authority = certificate, key, authority or certificate
        files = {Path(certificate), Path(key), Path(self._authority)}
        self._context = WatchedFiles(sorted(files), self._read, "certificate")

    def context(self) -> ssl.SSLContext:
        """For one connection."""
        return self._context.get()

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._authority)
        context.check_hostname = False
        context.load_cert_chain(self._certificate, self._key)
        return context


def listening(
    make: Callable[[], asyncio.Protocol],
    mode: TlsMode,
    certificate: str | None,
    key: str | None,
    client_authority: str | None = None,
) -> Callable[[], asyncio.Protocol]:
    """The protocol factory of a server: `make` itself, or one that looks at the first byte.

    New files count from the next connection on. Raises OSError or ssl.SSLError for files that
    cannot be used.
    """
    if mode is TlsMode.DISABLED:
        return make
    assert certificate, "the settings were checked"
    assert key, "the settings were checked"
    pair = Path(certificate), Path(key)
    authority = Path(client_authority) if client_authority else None
    files = pair if authority is None else (*pair, authority)
    contexts = WatchedFiles(files, lambda: server_context(*pair, authority), "certificate")
    enforced, complaints = mode is TlsMode.ENFORCING, Complaints(_log, time.monotonic)
    return lambda: FirstByte(make, contexts.get, enforced=enforced, complaints=complaints)


class FirstByte(asyncio.Protocol):
    """Waits for the first byte of a connection, then hands over to TLS or to plain text."""

    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        *,
        enforced: bool,
        complaints: Complaints,
    ) -> None:
        """`context()`: that of a connection which begins TLS now."""
        self._complaints = complaints
        self._make, self._context, self._enforced = make, context, enforced
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Where TLS is enforced, a silent client is cut off after
        HANDSHAKE_SECONDS_MAX.
        """
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        if self._enforced:
            self._deadline = loop.call_later(HANDSHAKE_SECONDS_MAX, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer: the client went before its first byte."""
        self._cancel()

    def data_received(self, data: bytes) -> None:
        """Hand the connection over by its first byte, or cut it."""
        transport = self._transport
        assert transport is not None
        self._cancel()
        if data[0] == _CLIENT_HELLO:
            layer: asyncio.Protocol = TlsLayer(self._make(), self._context(), self._complaints)
        elif data[0] in _FRAME_STARTS and not self._enforced:
            layer = self._make()
        else:
            why = "TLS is wanted here" if self._enforced else "its first byte begins nothing known"
            peer = transport.get_extra_info("peername")
            self._complaints.say("no TLS", "connection of %s closed: %s", peer, why)
            transport.abort()
            return
        transport.set_protocol(layer)
        layer.connection_made(transport)
        layer.data_received(data)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


class TlsLayer(asyncio.Protocol):
    """TLS between a transport and `inner`, which is connected once the handshake is done."""

    def __init__(
        self, inner: asyncio.Protocol, context: ssl.SSLContext, complaints: Complaints
    ) -> None:
        self._inner, self._complaints = inner, complaints
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._connected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake must be over within HANDSHAKE_SECONDS_MAX."""
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_SECONDS_MAX, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell `inner`, if the handshake was done."""
        self._cancel()
        self._transport = None
        if self._connected:
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Decrypt for `inner`. An error of TLS is told to the client and closes the connection."""
        self._incoming.write(data)
        try:
            if self._connected or self._shake_hands():
                self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the client why
            sentence = "TLS connection of %s closed: %s"
            self._complaints.say("TLS", sentence, self._peer(), error)
            self._close()
        self._flush()

    def eof_received(self) -> bool:
        """Tell `inner`; the transport closes."""
        if self._connected:
            self._inner.eof_received()
        return False

    def _close(self) -> None:
        """End the connection; the inner one hears that its client sends no more."""
        if self._transport is not None:
            self.eof_received()
            self._transport.close()

    def pause_writing(self) -> None:
        """Tell `inner`, once it is connected."""
        if self._connected:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell `inner`, once it is connected."""
        if self._connected:
            self._inner.resume_writing()

    def _shake_hands(self) -> bool:
        self._tls.do_handshake()
        self._cancel()
        assert self._transport is not None
        self._connected = True
        self._inner.connection_made(_TlsTransport(self, self._transport))
        return True

    def _read(self) -> None:
        while self._transport is not None and not self._transport.is_closing():
            data = self._tls.read(READ_SIZE)
            if not data:  # the client said goodbye
                self._close()
                return
            self._inner.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def write(self, data: bytes) -> None:
        """Plain bytes of the inner connection."""
        if self._transport is not None and data:
            self._tls.write(data)
            self._flush()

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _peer(self) -> Any:
        return self._transport and self._transport.get_extra_info("peername")


class _TlsTransport(asyncio.Transport):
    """The transport of the inner connection; all but writing is the real transport's."""

    def __init__(self, layer: TlsLayer, transport: asyncio.Transport) -> None:
        super().__init__()
        self._layer, self._transport = layer, transport

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._layer.write(bytes(data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()
