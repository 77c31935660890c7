"""Addresses as text: an IPv6 host has its brackets there, and none where it is alone."""

from __future__ import annotations

import pytest

from commitlog.address import (
    host_of,
    is_address,
    join_address,
    port_of,
    split_address,
    without_brackets,
)

ADDRESSES = [
    ("127.0.0.1:9876", "127.0.0.1", 9876),
    ("n0.example:0", "n0.example", 0),
    ("[::1]:65535", "::1", 65_535),
    ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
]


@pytest.mark.parametrize(("text", "host", "port"), ADDRESSES)
def test_an_address_is_taken_apart_and_put_together(text: str, host: str, port: int) -> None:
    assert split_address(text) == (host, port)
    assert (host_of(text), port_of(text), is_address(text)) == (host, port, True)
    assert join_address(host, port) == text


def test_an_ipv6_address_without_brackets_is_understood() -> None:
    assert split_address("::1:9876") == ("::1", 9876)


def test_brackets_are_put_once() -> None:
    assert join_address("[::1]", "80") == "[::1]:80"
    assert without_brackets("[::1]") == without_brackets("::1") == "::1"


@pytest.mark.parametrize(
    "text", ["", "n0", ":9876", "n0:", "n0:x", "n0:-1", "n0:+1", "n0:65536", "n0: 1", "n0:\u0661"]
)
def test_what_is_no_address_is_refused_with_the_form(text: str) -> None:
    assert not is_address(text)
    with pytest.raises(ValueError, match=r"is no address; write host:port$"):
        split_address(text)


def test_the_host_is_there_whatever_the_port_is() -> None:
    assert host_of("[::1]:x") == "::1"
    assert host_of("n0") == host_of("") == ""
