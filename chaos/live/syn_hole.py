"""A listener that never answers: dialling it takes until the dialler gives up, as if SYNs were
dropped."""

from __future__ import annotations

import contextlib
import socket
import struct

RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: close sends RST
# Linux answers backlog + 1 connections of a listener that accepts nobody; SYNs after them vanish.
PLUGS = 4


class SynHole:
    """Swallows dials from its making until `close`. Raises OSError when the address is taken."""

    def __init__(self, host: str, port: int) -> None:
        hole = socket.socket()
        self._sockets = [hole]
        hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hole.bind((host, port))
        hole.listen(0)
        for _ in range(PLUGS):
            plug = socket.socket()
            plug.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                plug.connect((host, port))
            self._sockets.append(plug)

    def close(self) -> None:
        """Resets the waiting connections and frees the port."""
        for sock in self._sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            sock.close()
        self._sockets = []
