"""The seal: one field that makes RocketMQ's signature cover the whole request and one attempt.

A signature covers values only. The name 0seal sorts before every field that RocketMQ has, so that
the signed content begins with the seal, which is of one size:

    sealed1:code:stamp:nonce:form     each number as decimal digits, zero padded

    code    6 digits   the request code
    stamp   13 digits  when the attempt was made, ms since 1970 on the client's clock
    nonce   24         hex digits that no other attempt of any client has
    form    32         hex(BLAKE2b-128 of every other field's name and size, in byte order of the
                       names, and of the body's size), without Signature

Code and form are judged here, because they need nothing but the request; how old a seal may be and
that it comes once is judged by single_use.py. A server that knows no seal signs it like any other
value and ignores it.

Content that begins with `sealed1:` is judged as sealed whatever its fields are named, so that
nobody takes a seal off by giving its bytes another field's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from cluster.core.access.signature import SIGNATURE

SEAL: Final = "0seal"
MARKER: Final = b"sealed1:"
NONCE_SIZE: Final = 24
FORM_SIZE: Final = 16  # bytes
SEAL_SIZE: Final = len(MARKER) + 6 + 1 + 13 + 1 + NONCE_SIZE + 1 + 2 * FORM_SIZE

_SEAL = re.compile(r"sealed1:([0-9]{6}):([0-9]{13}):([0-9a-f]{24}):([0-9a-f]{32})", re.ASCII)


class Seal(NamedTuple):
    """The values of a seal. `stamp_ms`: of the client's clock; `form`: FORM_SIZE bytes."""

    code: int
    stamp_ms: int
    nonce: str
    form: bytes

    def text(self) -> str:
        """The field's value."""
        return f"sealed1:{self.code:06d}:{self.stamp_ms:013d}:{self.nonce}:{self.form.hex()}"


def make_seal(code: int, ext: Mapping[str, str], body_size: int, stamp_ms: int, nonce: str) -> Seal:
    """The seal of one attempt. `nonce`: NONCE_SIZE hex digits, used once."""
    return Seal(code, stamp_ms, nonce, form_of(ext, body_size))


def read_seal(ext: Mapping[str, str]) -> Seal | None:
    """The seal of the field; None without the field, or when its text is no seal."""
    found = _SEAL.fullmatch(ext.get(SEAL, ""))
    if found is None:
        return None
    code, stamp, nonce, form = found.groups()
    return Seal(int(code), int(stamp), nonce, bytes.fromhex(form))


def broken(code: int, ext: Mapping[str, str], body_size: int, content: bytes) -> str | None:
    """Why a request is not the one that was sealed, as a sentence; None when it is, or has no seal.

    Args:
        content: what the signature covers, found to be right before.
    """
    if SEAL not in ext and not content.startswith(MARKER):
        return None
    seal = read_seal(ext)
    if seal is None or not content.startswith(ext[SEAL].encode()):
        return "its seal is not where it was signed; a sealed request cannot be sent as another one"
    if seal.code != code:
        return f"it was sealed as request {seal.code} and came as {code}"
    if seal.form != form_of(ext, body_size):
        return "its fields are not those that were sealed"
    return None


def form_of(ext: Mapping[str, str], body_size: int) -> bytes:
    """Which fields there are and where each ends: FORM_SIZE bytes, without SIGNATURE and SEAL."""
    names = sorted((name for name in ext if name not in (SIGNATURE, SEAL)), key=str.encode)
    return digest_of(form_part(names, ext), body_size)


def form_part(names: Iterable[str], ext: Mapping[str, str]) -> bytes:
    """The input of the form's digest for these fields, in order."""
    return b"".join(field_form(name, len(ext[name].encode())) for name in names)


def field_form(name: str, size: int) -> bytes:
    """One field of the form. The name's size comes first, so that none reads as two."""
    raw = name.encode()
    return b"%d:%b%d," % (len(raw), raw, size)


def digest_of(parts: bytes, body_size: int) -> bytes:
    """The form of a request with these fields and a body of so many bytes."""
    return hashlib.blake2b(b"%b%d" % (parts, body_size), digest_size=FORM_SIZE).digest()
