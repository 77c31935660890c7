"""An address as text, "host:port": taken apart and put together in one way.

An IPv6 host stands in brackets there, "[::1]:9876", and without them where it is alone. One that
stands in an address without brackets is understood, too: the last colon is before the port.
"""

from __future__ import annotations

from typing import Final

PORT_MAX: Final = 65_535


def split_address(text: str) -> tuple[str, int]:
    """Host without brackets, and port. Raises ValueError when one of them is missing or wrong."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is no address; write host:port")
    return without_brackets(host), int(port)


def is_address(text: str) -> bool:
    """Can `split_address` take it apart?"""
    try:
        split_address(text)
    except ValueError:
        return False
    return True


def host_of(text: str) -> str:
    """The host without brackets, also beside a wrong port; "" in a text without a colon."""
    return without_brackets(text.rpartition(":")[0])


def port_of(text: str) -> int:
    """The port. Raises ValueError as `split_address`."""
    return split_address(text)[1]


def join_address(host: str, port: int | str) -> str:
    """ "host:port", with brackets around an IPv6 host, which may have them already."""
    host = without_brackets(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def without_brackets(host: str) -> str:
    """A host as the operating system takes it."""
    return host.strip("[]")
