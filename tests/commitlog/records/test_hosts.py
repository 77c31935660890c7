"""Hosts ⇄ 8 or 20 bytes."""

from __future__ import annotations

import pytest
from hypothesis import given

from commitlog.errors import StoreUsageError
from commitlog.records.hosts import Host, pack_host, unpack_host

from ..strategies import hosts, random_search


@random_search
@given(hosts())
def test_round_trip(host: Host) -> None:
    packed = pack_host(host)
    assert len(packed) == (20 if ":" in host.ip else 8)
    assert unpack_host(packed) == host


def test_forms() -> None:
    assert pack_host(Host("127.0.0.1", 10911)).hex() == "7f00000100002a9f"
    assert pack_host(Host("::ffff:1.2.3.4", 5)) == pack_host(Host("1.2.3.4", 5))
    assert pack_host(Host("fe80::1%eth0", 5)) == pack_host(Host("fe80::1", 5))
    assert unpack_host(bytes.fromhex("00000000ffffffff")) == Host("0.0.0.0", -1)
    assert (str(Host("1.2.3.4", 5)), str(Host("::1", 5))) == ("1.2.3.4:5", "[::1]:5")


@pytest.mark.parametrize("host", [Host("example", 1), Host("", 1), Host("::1", -1)])
def test_no_host(host: Host) -> None:
    with pytest.raises(StoreUsageError):
        pack_host(host)
