"""Programs that have a port on this machine, for alerts about nodes that are not reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

import psutil

from commitlog.address import is_address, split_address

ABOUT_ADDRESSES = frozenset({"node-down", "client-port"})


def program_at(address: str) -> str:
    """The program of this machine that listens there, as "nc (process 4711)"; "" for none.

    A program of another user is "another user's program".
    """
    if not is_address(address):
        return ""
    host, port = split_address(address)
    if not _is_own(host):
        return ""
    try:
        sockets = psutil.net_connections(kind="tcp")
    except psutil.Error:  # this machine does not tell
        return ""
    for one in sockets:
        if one.status != psutil.CONN_LISTEN or not one.laddr:
            continue
        at, number = one.laddr
        if number == port and (at == host or ipaddress.ip_address(at).is_unspecified):
            return _name(one.pid)
    return ""


def _is_own(host: str) -> bool:
    """Is it an address of this machine? A name is not looked up."""
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        return False
    return any(host == row.address for rows in psutil.net_if_addrs().values() for row in rows)


def _name(pid: int | None) -> str:
    if pid is None:
        return "another user's program"
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.Error:  # it has just ended
        return f"process {pid}"


def with_programs(
    alerts: Iterable[dict[str, str]], addresses: Mapping[str, str]
) -> list[dict[str, str]]:
    """Alerts, those about nodes that are not reached with the program at their port.

    `addresses`: node → its client address; one of another machine is left as it is.
    """
    found = []
    for one in alerts:
        program = ""
        if one["id"] in ABOUT_ADDRESSES:
            program = program_at(addresses.get(one["subject"], ""))
        if program:
            one = {**one, "message": f"{one['message']}, where {program} listens"}
        found.append(one)
    return found
