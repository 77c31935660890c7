"""When the certificates end that a node uses now; its files are read again when they changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from dledger.runtime.watched_files import Stamp, stamp_of

WARNED_SECONDS: Final = 14 * 86_400
"""A certificate that ends within this time is an alert."""
URGENT_SECONDS: Final = 2 * 86_400
"""From here on it is a critical one."""

_log = logging.getLogger(__name__)


class CertificateEnd(NamedTuple):
    """A file of certificates that a node uses.

    Attributes:
        use: "clients" or "peers" of the node's own chain, "clients-authority" or
            "peers-authority" of those whose signatures it believes.
        file: its name, without folders.
        seconds: since 1970, when the first certificate in it ends.
    """

    use: str
    file: str
    seconds: float


class CertificateEnds:
    """The ends, kept per file until it changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, float | None]] = {}

    def of(self, files: Iterable[tuple[str, Path]]) -> list[CertificateEnd]:
        """One row for each (use, file) that can be read, by use."""
        rows = []
        for use, path in sorted(files):
            seconds = self._end_of(path)
            if seconds is not None:
                rows.append(CertificateEnd(use, path.name, seconds))
        return rows

    def _end_of(self, path: Path) -> float | None:
        """None for a file that cannot be read: the port that uses it names the fault."""
        try:
            stamp = stamp_of(path)
            known = self._known.get(path)
            if known is None or known[0] != stamp:
                known = self._known[path] = stamp, first_end(path.read_bytes(), time.time())
        except OSError:
            return None
        return known[1]


def first_end(pem: bytes, now: float) -> float | None:
    """Seconds since 1970 when the first certificate of a file ends, those left out that have ended
    beside others: an authority that was replaced may stay in its file. None: there is none.
    """
    from cryptography import x509  # 7 MB, which a node without TLS has no use for

    try:
        ends = [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(pem)]
    except ValueError as error:
        _log.debug("a file of certificates cannot be read: %s", error)
        return None
    return min([end for end in ends if end > now] or ends)
