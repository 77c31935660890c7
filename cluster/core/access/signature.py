"""The content and the making of a request's signature (docs/spec/remoting.md 4.10).

    content    the values of all fields but Signature, in byte order of their names, joined by
               nothing, then the body
    signature  Base64(HMAC-SHA1(secret key, content))

Clients up to version 399 add `_UNIQUE_KEY_QUERY` after signing, so it is left out for them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

SIGNATURE = "Signature"
ACCESS_KEY = "AccessKey"
_ADDED_LATER = "_UNIQUE_KEY_QUERY"
_VERSION_SIGNS_ALL = 399  # of the client; above it every field is signed


def sign(ext: Mapping[str, str], body: bytes, secret_key: str, version: int = 1 << 15) -> str:
    """The signature of a request with these fields."""
    return _signature(signed_content(ext, body, version), secret_key)


def signed_content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
    """The bytes that the signature of a request covers, for a client of that version."""
    names = sorted(
        (name for name in ext if name != SIGNATURE and not _left_out(name, version)),
        key=str.encode,
    )
    return b"".join(ext[name].encode() for name in names) + body


def is_signed(ext: Mapping[str, str], body: bytes, secret_key: str, version: int) -> bool:
    """Compared in constant time."""
    return is_signature(ext.get(SIGNATURE, ""), signed_content(ext, body, version), secret_key)


def is_signature(given: str, content: bytes, secret_key: str) -> bool:
    """Is it the content's? Compared in constant time."""
    return hmac.compare_digest(given.encode(), _signature(content, secret_key).encode())


def _signature(content: bytes, secret_key: str) -> str:
    digest = hmac.new(secret_key.encode(), content, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def _left_out(name: str, version: int) -> bool:
    return name == _ADDED_LATER and version <= _VERSION_SIGNS_ALL
