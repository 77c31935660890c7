"""The certificates that the settings of a node name: for its clients, and for its peers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.ports import LogPort
from cluster.security.certificate_ends import CertificateEnd, CertificateEnds
from dledger.config import TlsMode


class CertificatesUsed:
    """The certificates of one node; ask once its log is bound to its driver."""

    def __init__(self, config: BrokerConfig, log: LogPort) -> None:
        self._config, self._log, self._ends = config, log, CertificateEnds()

    def ends(self) -> list[CertificateEnd]:
        """When they end, by use; none of a node without TLS."""
        return self._ends.of(self._files())

    def _files(self) -> Iterator[tuple[str, Path]]:
        own, raft, files = self._config, self._log.driver.config, dict[str, str | None]()
        if own.tls_mode != TlsMode.DISABLED.value or own.name_server_tls:
            files["clients"] = own.tls_certificate
            files["clients-authority"] = own.tls_client_authority
        if raft.tls_mode != TlsMode.DISABLED.value:
            files["peers"], files["peers-authority"] = raft.tls_certificate, raft.tls_authority
        yield from ((use, Path(path)) for use, path in files.items() if path)
