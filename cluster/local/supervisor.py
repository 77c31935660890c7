"""Reports the state of this process to its supervisor, in systemd's protocol.

With $NOTIFY_SOCKET set, a datagram of lines KEY=VALUE goes there (sd_notify(3)):

    READY=1      recovered, all ports are bound. Not: "it serves", for that takes a majority; a unit
                 that waited for it would keep systemd from starting the nodes behind it. For the
                 same reason not: "the client ports are open", which those of a node that comes
                 back are when somebody leads (cluster/broker/client_ports.py)
    STOPPING=1   it was asked to stop, or cannot go on
"""

from __future__ import annotations

import logging
import os
import socket

NOTIFY_SOCKET = "NOTIFY_SOCKET"
READY = "READY=1"
STOPPING = "STOPPING=1"

_log = logging.getLogger(__name__)


def tell(state: str) -> None:
    """Send `state`, if a supervisor listens. A failure is logged and has no other effect."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address:
        return
    if address[0] not in "/@":
        _log.warning("%s is neither a path nor @name, so nobody is told", NOTIFY_SOCKET)
        return
    # "@" stands for the NUL byte of Linux's abstract names.
    place = "\0" + address[1:] if address[0] == "@" else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notice:
            notice.connect(place)
            notice.sendall(state.encode())
    except OSError as error:
        _log.warning("%s could not be told %s: %s", NOTIFY_SOCKET, state, error)
