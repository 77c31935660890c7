"""An incoming connection that may speak TLS: its first byte tells.

    0x16   a ClientHello    ─► handshake, then the frames of `inbound.py`
    0x00   a plain frame    ─► as such, or, where TLS is enforced, a refusal that says what to do

The first byte is read alone, so that a plain connection, once it is known to be one, reads into its
decoder like one of a node without TLS. Half a handshake and then silence ends with the time for the
hello.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, cast

from dledger.config import TlsMode
from dledger.errors import PeerRefused
from dledger.membership.handshake import RefusalReason
from dledger.runtime.inbound import Inbound
from dledger.runtime.owned import Owned
from dledger.runtime.peer_tls import PeerTls, named_nodes

_CLIENT_HELLO = 0x16
_RECEIVE_BYTES = 64 << 10


class InboundTls(Inbound):
    """Inbound over TLS. `tls`: this node's certificate and trusted issuers."""

    def __init__(self, tls: PeerTls, *rest: Any, owned: Owned) -> None:
        super().__init__(*rest, owned=owned)
        self._tls = tls
        self._receive: Callable[[int], None] = self._first_byte
        self._raw = memoryview(bytearray(1))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session: ssl.SSLObject | None = None
        self._is_plain = False

    def get_buffer(self, sizehint: int) -> memoryview:
        """A buffer for records of TLS; the decoder's own on a connection without TLS."""
        return super().get_buffer(sizehint) if self._is_plain else self._raw

    def buffer_updated(self, nbytes: int) -> None:
        """Take the first byte, then the handshake, then records of TLS, or frames without it."""
        if not self._closed:
            self._receive(nbytes)

    def _first_byte(self, nbytes: int) -> None:
        if self._raw[0] == _CLIENT_HELLO:
            context = self._tls.context(dials=False)
            self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._incoming.write(self._raw)
            self._raw = memoryview(bytearray(_RECEIVE_BYTES))
            self._receive = self._shake_hands
        elif self._tls.mode is TlsMode.ENFORCING:
            self._raw = memoryview(bytearray(_RECEIVE_BYTES))
            self._receive = self._refuse_plain
        else:
            self._is_plain, self._receive = True, super().buffer_updated
            super().get_buffer(1)[:1] = self._raw
            super().buffer_updated(1)

    def _refuse_plain(self, nbytes: int) -> None:
        """The rest of the hello is here: closing before it was read would cost it our answer."""
        self._refuse(
            PeerRefused(
                RefusalReason.TLS_WANTED,
                f"{self._name} takes TLS only and was dialled without; give the "
                "caller a certificate and tls_mode permissive or enforcing",
            )
        )

    def _shake_hands(self, nbytes: int) -> None:
        session = self._session
        assert session is not None
        self._incoming.write(self._raw[:nbytes])
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that tells the caller why
            self._end(f"a peer's TLS handshake failed: {error}; see the certificates of both")
        else:
            self._flush()
            self.certified = named_nodes(session.getpeercert())
            self._receive = self._records
            self._records(0)

    def _records(self, nbytes: int) -> None:
        session = self._session
        assert session is not None
        self._incoming.write(self._raw[:nbytes])
        try:
            while not self._closed:
                buffer = super().get_buffer(-1)
                size = cast(int, session.read(len(buffer), buffer))
                if not size:
                    self._end("")  # the peer said goodbye
                else:
                    super().buffer_updated(size)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self._end(f"a peer's TLS connection broke: {error}")

    def _write(self, data: bytes) -> None:
        if self._session is None:
            super()._write(data)
        else:
            self._session.write(data)
            self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending:
            super()._write(self._outgoing.read())
