"""When the certificates end that a node uses now; its files are read again when they changed."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dledger.runtime.watched_files import Stamp, stamp_of

WARNED_SECONDS: Final = 14 * 86_400
"""A certificate that ends within this time is an alert."""
URGENT_SECONDS: Final = 2 * 86_400
"""From here on it is a critical one."""

AUTHORITY: Final = "-authority"
"""Ends the names of uses for which a file has authorities, not a chain."""
SIZE_MAX: Final = 4 << 20
"""Bytes of a file that is read here; a system's authorities have a quarter of a MiB."""

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


class Found(NamedTuple):
    """A certificate of a file: its end in seconds since 1970. `signs_itself`: an authority's."""

    end: float
    signs_itself: bool


class CertificateEnds:
    """The ends, kept per file until it changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, tuple[Found, ...]]] = {}

    def of(self, files: Iterable[tuple[str, Path]]) -> list[CertificateEnd]:
        """One row for each (use, file) that could be read, by use."""
        rows, now = [], time.time()
        for use, path in sorted(files):
            seconds = first_end(self._found_in(path), now, is_chain=not use.endswith(AUTHORITY))
            if seconds is not None:
                rows.append(CertificateEnd(use, path.name, seconds))
        return rows

    def _found_in(self, path: Path) -> tuple[Found, ...]:
        """As of the last time that it was readable, as the port that uses it has it: that one names
        the fault of a file that is not.
        """
        known = self._known.get(path)
        with contextlib.suppress(OSError):
            stamp = stamp_of(path)
            if known is None or known[0] != stamp:
                found = found_in(_content(path)) or (known[1] if known is not None else ())
                known = self._known[path] = stamp, found
        return known[1] if known is not None else ()


def _content(path: Path) -> bytes:
    """Empty for a file that is too large. Raises OSError."""
    with path.open("rb") as file:
        content = file.read(SIZE_MAX + 1)
    return content if len(content) <= SIZE_MAX else b""


def found_in(pem: bytes) -> tuple[Found, ...]:
    """The certificates of a file, in its order; none of one that cannot be read."""
    from cryptography import x509  # 7 MB, which a node without TLS has no use for

    try:
        return tuple(
            Found(one.not_valid_after_utc.timestamp(), one.issuer == one.subject)
            for one in x509.load_pem_x509_certificates(pem)
        )
    except Exception as error:  # by the parser, of kinds of its own; OpenSSL may take it
        _log.debug("a file of certificates cannot be read: %s", error)
        return ()


def first_end(found: Sequence[Found], now: float, *, is_chain: bool) -> float | None:
    """Seconds since 1970 when the first certificate of a file ends. None: there is none.

    An authority that has ended beside others is left out: it was replaced, and may stay. In a chain
    (`is_chain`) that holds for those at its end alone: with any other the chain is good no more.
    """
    counted = [
        one.end
        for number, one in enumerate(found)
        if one.end > now or (is_chain and not (number and one.signs_itself))
    ]
    return min(counted or [one.end for one in found], default=None)
