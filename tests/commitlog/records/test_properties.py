"""The property block: round trips, what Java drops, single properties by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import MessageTooLarge, StoreUsageError
from commitlog.records import property_names
from commitlog.records.properties import (
    check_user_properties,
    decode_properties,
    encode_properties,
    find_property,
    split_keys,
    with_property,
    without_property,
)

from ..strategies import odd_blocks, property_maps, random_search


def as_java_does(block: bytes) -> dict[str, str]:
    """docs/spec/store.md 1.3, step by step as the Java source walks it."""
    text, result, index = block.decode("utf-8", "replace"), {}, 0
    while index < len(text):
        end = text.find("\x02", index)
        end = len(text) if end < 0 else end
        if len(text[index:end].encode("utf-16-be")) >= 6:
            separator = text.find("\x01", index)
            if index < separator < end - 1:
                result[text[index:separator]] = text[separator + 1 : end]
        index = end + 1
    return result


@random_search
@given(property_maps)
def test_round_trip(properties: dict[str, str]) -> None:
    block = encode_properties(properties)
    assert decode_properties(block) == properties
    assert decode_properties(block[:-1]) == properties
    assert not block or block.endswith(b"\x02")


@random_search
@given(odd_blocks | st.binary(max_size=40) | st.text("a\x01\x02", max_size=20).map(str.encode))
def test_odd_blocks_read_as_in_java(block: bytes) -> None:
    expected = as_java_does(block)
    assert decode_properties(block) == expected
    for name in ("TAGS", "KEYS", "a"):
        value = find_property(block, name.encode())
        assert (value and value.decode("utf-8", "replace")) == expected.get(name)


@random_search
@given(odd_blocks | property_maps.map(encode_properties))
def test_one_property_replaced_or_removed(block: bytes) -> None:
    others = {name: value for name, value in decode_properties(block).items() if name != "TAGS"}
    assert decode_properties(without_property(block, b"TAGS")) == others
    changed = with_property(block, b"TAGS", b"new")
    assert decode_properties(changed) == others | {"TAGS": "new"}
    assert changed.endswith(b"TAGS\x01new\x02")


@pytest.mark.parametrize(
    "properties",
    [{"": "v"}, {"n": ""}, {"n\x01": "v"}, {"n\x02": "v"}, {"n": "v\x02"}, {"a": "b", "\x01": "v"}],
)
def test_what_would_not_be_read_back_is_refused(properties: dict[str, str]) -> None:
    assert (
        decode_properties(
            "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
        )
        != properties
    )
    with pytest.raises(StoreUsageError):
        encode_properties(properties)


def test_the_limit() -> None:
    assert len(encode_properties({"n": "v" * 32_764})) == 32_767
    with pytest.raises(MessageTooLarge):
        encode_properties({"n": "v" * 32_765})


def test_a_lone_surrogate_becomes_a_question_mark_as_in_java() -> None:
    assert encode_properties({"n": "\ud800"}) == b"n\x01?\x02"


def test_keys_are_split_at_single_spaces() -> None:
    assert split_keys("a  b c ") == ["a", "b", "c"]
    assert split_keys("") == []


def test_users_may_not_set_reserved_names() -> None:
    check_user_properties({"colour": "red", property_names.SHARDING_KEY: "k"})
    for name in ("TAGS", "UNIQ_KEY", "__PID", "__CRC32#", "MIN_OFFSET"):
        with pytest.raises(StoreUsageError, match=name):
            check_user_properties({name: "v"})
    with pytest.raises(StoreUsageError, match="empty"):
        check_user_properties({"n": ""})


def test_the_reserved_list() -> None:
    """Names marked with a dagger in docs/spec/store.md 2 are free; every other one is not."""
    assert {"KEYS", "WAIT", "POP_CK", "DUP_INFO", "__SEQ"} <= property_names.RESERVED
    free = {"INNER_NUM", "INNER_BASE", "__SHARDINGKEY", "REDIRECT", "__transactionId__"}
    assert not free & property_names.RESERVED
    assert " " not in property_names.RESERVED
