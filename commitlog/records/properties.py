"""The property block of a message record ⇄ a mapping of strings (docs/spec/store.md 1.3).

    name 01 value 02  name 01 value 02  …        UTF-8; a short before it gives its length

Writers end every pair with 02; readers accept its absence at the end. There is no escape, and an
empty value is lost when read, so `encode_properties` refuses whatever would not be read back.
Bytes that are not UTF-8 read as U+FFFD, as in Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from commitlog.errors import MessageTooLarge, StoreUsageError
from commitlog.records import property_names

NAME_END: Final = b"\x01"
PAIR_END: Final = b"\x02"
PROPERTIES_SIZE_MAX: Final = 32_767  # the length field is a signed short


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The block for `properties`, in their order; b"" for none.

    Raises StoreUsageError for a pair that would not be read back (empty name or value, a
    separator inside), MessageTooLarge above 32,767 bytes.
    """
    text = _joined(properties)
    count = len(properties)
    if (
        text.count("\x01") != count
        or text.count("\x02") != count
        or "\x01\x02" in text
        or "\x02\x01" in text
        or text.startswith("\x01")
    ):
        for name, value in properties.items():
            _check_pair(name, value)
    block = text.encode("utf-8", "replace")
    if len(block) > PROPERTIES_SIZE_MAX:
        raise MessageTooLarge("properties", len(block), PROPERTIES_SIZE_MAX)
    return block


def join_properties(properties: Mapping[str, str]) -> bytes:
    """The block for pairs that `decode_properties` returned: unchecked, of any size."""
    return _joined(properties).encode("utf-8", "replace")


def _joined(properties: Mapping[str, str]) -> str:
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def _check_pair(name: str, value: str) -> None:
    if not name or not value:
        raise StoreUsageError(
            f"property {name!r} = {value!r} has an empty name or value, which readers drop; "
            "leave the property out"
        )
    if "\x01" in name or "\x02" in name or "\x02" in value:
        raise StoreUsageError(
            f"property {name!r} = {value!r} holds a separator (character 1 or 2); "
            "encode the value before sending it"
        )


def decode_properties(block: bytes | bytearray | memoryview) -> dict[str, str]:
    """The pairs of a block; of a repeated name the last one counts.

    Never fails: it drops bytes that are not a pair, as Java does.
    """
    result: dict[str, str] = {}
    for piece in str(block, "utf-8", "replace").split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            result[name] = value
    return result


def find_property(block: bytes, name: bytes) -> bytes | None:
    """Value of one property as bytes, without decoding the others; None when it is absent."""
    key = PAIR_END + name + NAME_END
    text = PAIR_END + block
    at = text.rfind(key)
    while at >= 0:
        begin = at + len(key)
        end = text.find(PAIR_END, begin)
        value = text[begin:end] if end >= 0 else text[begin:]
        if value:
            return value
        at = text.rfind(key, 0, at)  # an empty value is no pair: an earlier one counts
    return None


def without_property(block: bytes, name: bytes) -> bytes:
    """The block without any pair of that name; the rest stays as it is."""
    start = name + NAME_END
    if start not in block:
        return block
    pieces = [piece for piece in block.split(PAIR_END) if not piece.startswith(start)]
    return PAIR_END.join(pieces)


def with_property(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with that pair at its end, replacing any of the same name."""
    assert name, "an empty name would be lost"
    assert value, "an empty value would be lost"
    assert NAME_END not in name, "separators cannot be escaped"
    assert PAIR_END not in name + value, "separators cannot be escaped"
    rest = without_property(block, name)
    if rest and not rest.endswith(PAIR_END):
        rest += PAIR_END
    return b"".join((rest, name, NAME_END, value, PAIR_END))


def split_keys(keys: str) -> list[str]:
    """The non-empty parts of a KEYS value; each becomes one index entry (docs/spec/store.md 4)."""
    return [part for part in keys.split(property_names.KEY_SEPARATOR) if part]


def check_user_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties that no client may send (docs/spec/store.md 1.3).

    Raises StoreUsageError.
    """
    for name, value in properties.items():
        if name in property_names.RESERVED:
            raise StoreUsageError(
                f"property name {name!r} is reserved by the system; choose another name"
            )
        _check_pair(name, value)
