"""The ROCKETMQ binary form of a frame's header (docs/spec/remoting.md 1.2).

    int16 code | int8 language | int16 version | int32 opaque | int32 flag        15 bytes
    int32 remark size | remark | int32 ext size | ext
    ext = { int16 key size | key | int32 value size | value } …   big-endian, UTF-8

A remark of no bytes is no remark; a value of no bytes is the empty text. Bytes that are not UTF-8
read as U+FFFD, as in Java.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from cluster.errors import LocalProtocolError, RemoteProtocolError
from cluster.protocol.json_header import (
    FIELDS_COUNT_MAX,
    LANGUAGES,
    Fields,
    language_name,
    too_many_fields,
)

FIXED: Final = struct.Struct(">hbhiii")
"""code, language, version, opaque, flag, remark size."""

SIZE: Final = struct.Struct(">i")
KEY_SIZE: Final = struct.Struct(">h")
LANGUAGE_NUMBERS: Final = {name: number for number, name in enumerate(LANGUAGES)}


def decode(header: bytes, body: bytes) -> Fields:
    """The header's fields, with `body` in its place.

    Raises:
        RemoteProtocolError: a size points outside of the header, or it has too many fields.
    """
    try:
        code, language, version, opaque, flag, remark_size = FIXED.unpack_from(header)
        at = FIXED.size
        remark, at = _text(header, at, remark_size)
        (ext_size,) = SIZE.unpack_from(header, at)
        at += SIZE.size
        if ext_size != len(header) - at:
            raise ValueError(f"ext size {ext_size} where {len(header) - at} bytes are left")
        ext = _read_ext(header, at)
    except (struct.error, ValueError) as error:
        raise RemoteProtocolError(
            f"a frame's binary header cannot be read ({error}), so the connection is closed"
        ) from error
    return code, opaque, ext, body, flag, remark or None, language_name(language), version


def encode(
    code: int,
    language: str,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: Mapping[str, str],
) -> bytes:
    """The header's bytes.

    Raises:
        LocalProtocolError: a value is no text, or a number does not fit its field.
    """
    remark_bytes = (remark or "").encode()
    try:
        block = encode_ext(ext)
        number = LANGUAGE_NUMBERS.get(language, LANGUAGE_NUMBERS["OTHER"])
        fixed = FIXED.pack(code, number, version, opaque, flag, len(remark_bytes))
    except (struct.error, AttributeError) as error:
        raise LocalProtocolError(
            f"code {code} or fields {dict(ext)!r} do not fit: {error}"
        ) from error
    return b"".join((fixed, remark_bytes, SIZE.pack(len(block)), block))


def encode_ext(ext: Mapping[str, str]) -> bytes:
    """The fields as the binary form's `ext` block, in the map's order."""
    parts: list[bytes] = []
    for key, value in ext.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (KEY_SIZE.pack(len(key_bytes)), key_bytes)
        parts += (SIZE.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _read_ext(header: bytes, at: int) -> dict[str, str]:
    ext: dict[str, str] = {}
    count, end = 0, len(header)
    while at < end:
        (key_size,) = KEY_SIZE.unpack_from(header, at)
        key, at = _text(header, at + KEY_SIZE.size, key_size)
        (value_size,) = SIZE.unpack_from(header, at)
        ext[key], at = _text(header, at + SIZE.size, value_size)
        count += 1
        if count > FIELDS_COUNT_MAX:
            raise too_many_fields(count)
    return ext


def _text(header: bytes, at: int, size: int) -> tuple[str, int]:
    stop = at + size
    if size < 0 or stop > len(header):
        raise ValueError(f"size {size} at byte {at} of {len(header)}")
    return header[at:stop].decode("utf-8", "replace"), stop
