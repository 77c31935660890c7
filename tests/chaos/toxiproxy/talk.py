"""What the tests of toxiproxy's contract talk with, and how."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from chaos.toxiproxy.client import Proxy

QUICK_SECONDS = 0.25
ANSWER_SECONDS = 3.0


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:  # until the listener is closed
                connection, _ = self._listener.accept()
                threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                connection.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def dial(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(proxy.address, timeout=ANSWER_SECONDS) as connection:
        yield connection


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, fewer at the end of the stream. Raises TimeoutError."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(QUICK_SECONDS)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(ANSWER_SECONDS)
    return False


def has_ended(connection: socket.socket) -> bool:
    """EOF or RST, however the server ends a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
