"""How long a connection may be dead before we notice, as options of its socket.

Sent bytes that the other machine does not take within `seconds` end the connection
(TCP_USER_TIMEOUT); one without traffic is probed now and then (keepalive).
Without these TCP itself waits for up to a quarter of an hour, or for ever.
"""

from __future__ import annotations

import asyncio
import socket

#: Two followers have nothing to say to each other for as long as a leader lives.
_IDLE_SECONDS = 15
_PROBE_SECONDS = 5
_PROBES = 3


def limit_silence(transport: asyncio.Transport, seconds: float | None) -> None:
    """Set the socket options that the system has (Linux: all). `seconds` None: only keepalive."""
    raw = transport.get_extra_info("socket")
    if raw is None:
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted: list[tuple[str, int]] = [
        ("TCP_KEEPIDLE", _IDLE_SECONDS),
        ("TCP_KEEPINTVL", _PROBE_SECONDS),
        ("TCP_KEEPCNT", _PROBES),
    ]
    if seconds is not None:
        wanted.append(("TCP_USER_TIMEOUT", int(seconds * 1000)))
    for name, setting in wanted:
        option = getattr(socket, name, None)
        if option is not None:
            raw.setsockopt(socket.IPPROTO_TCP, option, setting)
