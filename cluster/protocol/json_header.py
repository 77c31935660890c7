"""The JSON form of a frame's header, read tolerantly and written strictly.

Source: docs/spec/remoting.md 1.1.

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,
     "serializeTypeCurrentRPC":"JSON","version":479}                      (without the line break)

Read: values of `extFields` may be numbers or booleans (C++, Node), the object may be absent or
null, language may be a number, unknown keys and a newline at the end are ignored. Written: every
value is a text and there is no whitespace, because the Go client needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from cluster.errors import LocalProtocolError, RemoteProtocolError

LANGUAGES = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)
"""Language names; the place in the list is the number in the binary header."""

FIELDS_COUNT_MAX: Final = 1_000
"""Fields of one header, of either kind. Stock clients send 17 at the most; a message's properties
are one field, of 32,767 bytes.
"""
#: Commas and brackets of a JSON header, those in texts counted, before it is read: properties may
#: consist of nothing else. To read so many values takes 4 ms.
MARKS_COUNT_MAX: Final = 40_000

Fields = tuple[int, int, Mapping[str, str], bytes, int, str | None, str, int]
"""code, opaque, ext, body, flag, remark, language, version: the order of `Frame`."""


def decode(header: bytes, body: bytes) -> Fields:
    """The header's fields, with `body` in its place.

    Raises:
        RemoteProtocolError: not a JSON object, without a code and an opaque number, or with more
            fields than any client has.
    """
    if len(header) > MARKS_COUNT_MAX:
        marks = header.count(b",") + header.count(b"{") + header.count(b"[")
        if marks > MARKS_COUNT_MAX:
            raise too_many_fields(marks)
    try:
        fields = orjson.loads(header)
        ext = fields.get("extFields") or {}
        if len(ext) > FIELDS_COUNT_MAX:
            raise too_many_fields(len(ext))
        try:
            "".join(ext.values())  # the cheapest way to ask whether all of them are text
        except TypeError:
            ext = _as_text(ext)
        language = fields.get("language", "OTHER")
        return (
            int(fields["code"]),
            int(fields["opaque"]),
            ext,
            body,
            int(fields.get("flag", 0)),
            fields.get("remark") or None,
            language if isinstance(language, str) else language_name(language),
            int(fields.get("version", 0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RemoteProtocolError(
            f"a frame's JSON header cannot be read ({error!r}), so the connection is closed"
        ) from error


def too_many_fields(count: int) -> RemoteProtocolError:
    """The error for a header with more than FIELDS_COUNT_MAX fields."""
    return RemoteProtocolError(
        f"a header of some {count} fields came and the limit is {FIELDS_COUNT_MAX}, so the "
        "connection is closed"
    )


def encode(
    code: int,
    language: str,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: Mapping[str, str],
) -> bytes:
    """The header's bytes; see the module's rules.

    Raises:
        LocalProtocolError: a value of `ext` is no text.
    """
    fields: dict[str, Any] = {"code": code, "extFields": ext, "flag": flag, "language": language}
    fields["opaque"] = opaque
    if remark is not None:
        fields["remark"] = remark
    fields["serializeTypeCurrentRPC"] = "JSON"
    fields["version"] = version
    try:
        "".join(ext.values())
        return orjson.dumps(fields)
    except TypeError as error:
        raise LocalProtocolError(f"header fields must all be text, got {dict(ext)!r}") from error


def language_name(number: Any) -> str:
    """The language's name for its number; an unknown one is OTHER."""
    known = isinstance(number, int) and 0 <= number < len(LANGUAGES)
    return LANGUAGES[number] if known else "OTHER"


def text_of(value: Any) -> str:
    """A field's value as text: true/false for booleans, decimal for numbers.

    Source: docs/spec/remoting.md 1.1.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return orjson.dumps(value).decode()


def _as_text(ext: Mapping[str, Any]) -> dict[str, str]:
    return {key: text_of(value) for key, value in ext.items() if value is not None}
