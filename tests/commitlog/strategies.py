"""Random values for the codecs' property tests."""

from __future__ import annotations

import ipaddress

from hypothesis import settings
from hypothesis import strategies as st

from commitlog.records.hosts import Host
from commitlog.records.message import Message

# The machine may be busy: a slow example says nothing about the code.
random_search = settings(deadline=None, max_examples=120)

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
offsets = st.integers(0, (1 << 63) - 1)
# Few characters, of every length in UTF-8 and UTF-16: drawing from all of Unicode is slow.
texts = st.text("aZ09 _订é😀\x00\x7f", max_size=40)
property_names = st.text("aT_9订😀\x00", min_size=1, max_size=12)
# A value may hold character 1: the first one of a piece ends the name.
property_values = st.text("aT_9订😀\x00\x01 ", min_size=1, max_size=12)
well_known = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "__PID", "__SEQ", "WAIT", "TAGS2"])
property_maps = st.dictionaries(property_names | well_known, property_values, max_size=5)
topics = st.text("%|_-abcXYZ019", min_size=1, max_size=140)

# Blocks as a foreign writer might leave them: pieces of every kind, with and without an end.
odd_blocks = st.lists(
    st.sampled_from(
        [
            b"\x01",
            b"\x02",
            b"TAGS\x01",
            b"TAGS\x01a\x02",
            b"KEYS\x01k k2\x02",
            b"UNIQ_KEY\x01",
            b"XUNIQ_KEY\x01no\x02",
            b"__PID\x01p\x02",
            b"__SEQ\x017\x02",
            b"TAGS",
            b"a",
            b"\xe8\xae\xa2",
            b"\xff",
        ]
    ),
    max_size=10,
).map(b"".join)


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    """IPv4 and IPv6 hosts in the form that the decoder gives back."""
    version = draw(st.sampled_from([4, 6]))
    if version == 4:
        ip = str(ipaddress.IPv4Address(draw(st.integers(0, (1 << 32) - 1))))
    else:
        address = ipaddress.IPv6Address(draw(st.integers(0, (1 << 128) - 1)))
        ip = str(address.ipv4_mapped or address)
    return Host(ip, draw(st.integers(0, 65_535)))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    born_host, store_host = draw(hosts()), draw(hosts())
    v6 = 0x10 * (":" in born_host.ip) | 0x20 * (":" in store_host.ip)
    return Message(
        topic=draw(topics),
        body=draw(st.binary(max_size=100)),
        properties=draw(property_maps),
        queue_id=draw(int32),
        flag=draw(int32),
        queue_offset=draw(int64),
        physical_offset=draw(int64),
        sys_flag=draw(int32) & ~0x30 | v6,
        born_timestamp_ms=draw(int64),
        born_host=born_host,
        store_timestamp_ms=draw(int64),
        store_host=store_host,
        reconsume_times=draw(int32),
        prepared_transaction_offset=draw(int64),
    )
