"""The addresses on which a name server may listen: this machine's, unless the user asks for more.

Any program that reaches the port may register brokers, and so send clients to any address: a name
server does not check who registers. So an address beyond this machine has to be allowed explicitly.
"""

from __future__ import annotations

from commitlog.address import split_address
from commitlog.advice import Advised
from dledger.config import is_loopback


class NameServerConfigError(Advised, ValueError):
    """The address cannot be used; the text names an address to give instead."""

    advice = "correct the option"


def parse_listen(text: str) -> tuple[str, int]:
    """(host, port) of "host:port", an IPv6 host in brackets. Raises NameServerConfigError."""
    try:
        return split_address(text)
    except ValueError as error:
        raise NameServerConfigError(f"--listen {error}") from None


def check_reach(host: str, *, open_to_network: bool) -> None:
    """Raises NameServerConfigError for a host beyond this machine without `--open-to-network`."""
    if open_to_network or is_loopback(host):
        return
    raise NameServerConfigError(
        f"{host} is beyond this machine, and whoever reaches a name server may tell clients where "
        "brokers are; listen on a loopback address, or say --open-to-network where a firewall "
        "lets only your own machines in"
    )
