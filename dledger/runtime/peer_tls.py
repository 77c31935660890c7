"""TLS between peers: this node's certificate, its trusted issuers, the node named in one.

    certificate, key   what this node shows, whether it dials or is dialled
    authority          the signer of the certificates of all nodes of the cluster, and of no others:
                       a caller that shows one of them may be a peer

A certificate may say whose it is, by names of the form URI:dledger-node:<node id> among its
subjectAltNames. Then only that node may show it; one without such a name is any node's.

The files are looked at with every connection: new ones count from the next connection on
(watched_files.py).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dledger.config import RaftConfig, TlsMode
from dledger.core.types import NodeId
from dledger.runtime.watched_files import WatchedFiles

_NODE_PREFIX = "dledger-node:"


class PeerTls:
    """Contexts of one node. Raises OSError or ssl.SSLError for files that cannot be used."""

    def __init__(self, mode: TlsMode, certificate: str, key: str, authority: str) -> None:
        self.mode = mode
        self._certificate, self._key = Path(certificate), Path(key)
        self._authority = Path(authority)
        files = (self._certificate, self._key, self._authority)
        self._contexts = WatchedFiles(files, self._read, "certificate")

    @classmethod
    def of(cls, config: RaftConfig) -> PeerTls | None:
        """The TLS of a node's peers by its settings; None for a node without TLS."""
        mode = TlsMode(config.tls_mode)
        if mode is TlsMode.DISABLED:
            return None
        assert config.tls_certificate, "the settings were checked"
        assert config.tls_key, "the settings were checked"
        assert config.tls_authority, "the settings were checked"
        return cls(mode, config.tls_certificate, config.tls_key, config.tls_authority)

    def context(self, *, dials: bool) -> ssl.SSLContext:
        """For one connection: of the files as they are now, or as they were when they were good."""
        return self._contexts.get()[dials]

    def _read(self) -> Mapping[bool, ssl.SSLContext]:
        contexts = {
            True: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            False: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        }
        contexts[False].num_tickets = 0  # connections last; none is resumed
        for context in contexts.values():
            context.minimum_version = ssl.TLSVersion.TLSv1_3  # both sides are ours
            context.check_hostname = False  # a node is told by its name, not by its address
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_cert_chain(self._certificate, self._key)
                context.load_verify_locations(self._authority)
            except ssl.SSLError as error:
                raise ssl.SSLError(
                    f"certificate {self._certificate}, key {self._key} and authority "
                    f"{self._authority} cannot be used ({error}); give a PEM chain, its "
                    "unencrypted key, and the certificate of who signs those of all nodes"
                ) from None
        return contexts


_ANY: frozenset[NodeId] = frozenset()


def named_nodes(certificate: Mapping[str, Any] | None) -> frozenset[NodeId]:
    """The nodes that a certificate names; empty: any node. As SSLObject.getpeercert gives it."""
    if not certificate:
        return _ANY
    names = certificate.get("subjectAltName", ())
    return frozenset(
        NodeId(name.removeprefix(_NODE_PREFIX))
        for kind, name in names
        if kind == "URI" and name.startswith(_NODE_PREFIX)
    )
