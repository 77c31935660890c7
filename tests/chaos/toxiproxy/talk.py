"""What the tests of toxiproxy's contract talk with, and how."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.toxiproxy.client import Proxy, Toxiproxy
from tests.waiting import limit

ANSWER_SECONDS = limit(10.0)
# Of requests that a server answers one after the other, each on a connection of its own.
ROUNDS = 8


class Server:
    """Takes every connection, each in a thread of its own, until it is closed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:  # until the listener is closed
                connection, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                self.heard(connection, data)

    def heard(self, connection: socket.socket, data: bytes) -> None:
        """What came on a connection."""
        raise NotImplementedError

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Echo(Server):
    """Sends back what it gets."""

    def heard(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)


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


def says(connection: socket.socket, data: bytes) -> bool:
    """Whether the echo answers."""
    connection.sendall(data)
    return receive(connection, len(data)) == data


def let_pass(toxiproxy: Toxiproxy) -> None:
    """What the server lets pass has passed: it has answered so many requests since.

    Work and no time: on a busy machine both are late alike.
    """
    for _ in range(ROUNDS):
        toxiproxy.version()


def is_silent(connection: socket.socket, toxiproxy: Toxiproxy) -> bool:
    """Whether nothing comes, though the server has done other work meanwhile."""
    let_pass(toxiproxy)
    connection.setblocking(False)
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(ANSWER_SECONDS)
    return False


def has_taken(connection: socket.socket) -> bool:
    """Whether the other end has read all that was sent to it, as the kernel counts it.

    sl  local_address rem_address   st tx_queue rx_queue …      of /proc/net/tcp, in hex
    """
    ours, theirs = connection.getsockname()[1], connection.getpeername()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if (int(local[-4:], 16), int(remote[-4:], 16)) == (theirs, ours):
            return int(queues.partition(":")[2], 16) == 0
    return False  # it is not connected yet


def has_ended(connection: socket.socket) -> bool:
    """EOF or RST, however the server ends a connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@dataclass
class Heard:
    """What came over one connection, and how it ended: "eof", "reset", "" when it has not."""

    data: bytes = b""
    end: str = ""
    ended: float = 0.0


class Target:
    """A server that says something to whoever dials, and keeps what it hears.

    leaves: it ends the connection once it has spoken.   late: what it says to whoever has ended.
    """

    def __init__(self, says: bytes = b"", *, leaves: bool = False, late: bytes = b"") -> None:
        self.heard: list[Heard] = []
        self._says, self._leaves, self._late = says, leaves, late
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:  # until the listener is closed
                connection, _ = self._listener.accept()
                self.heard.append(Heard())
                with_whom = (connection, self.heard[-1])
                threading.Thread(target=self._talk, args=with_whom, daemon=True).start()

    def _talk(self, connection: socket.socket, heard: Heard) -> None:
        with connection, contextlib.suppress(OSError):
            try:
                connection.sendall(self._says)
                if self._leaves:
                    return
                while data := connection.recv(65536):
                    heard.data += data
                connection.sendall(self._late)
                heard.end = "eof"
            except ConnectionError:
                heard.end = "reset"
            heard.ended = time.monotonic()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def through(toxiproxy: Toxiproxy, target: Target) -> Iterator[Proxy]:
    yield toxiproxy.create("target", target.address)
    target.close()


def once_in(tries: int, trial: Callable[[], bool]) -> bool:
    """Whether a trial succeeds: what asks for speed fails now and then on a busy machine."""
    return any(trial() for _ in range(tries))


def how_it_ends(connection: socket.socket) -> str:
    """ "eof" or "reset". Raises TimeoutError, and AssertionError when bytes come."""
    try:
        assert connection.recv(1) == b""
    except ConnectionError:
        return "reset"
    return "eof"
