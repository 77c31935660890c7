"""A remoting client without manners: any bytes to a port, any fields in a frame."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import limit

ANSWER_SECONDS_MAX = limit(10.0)


class RawClient:
    """One blocking connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX)
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        self._opaque = itertools.count(1)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(
        self, code: int, fields: Mapping[str, Any] | None = None, body: bytes = b"", kind: int = 0
    ) -> Frame:
        """One request and its answer; notices in between are dropped."""
        opaque = next(self._opaque)
        ext = {name: str(value) for name, value in (fields or {}).items()}
        self.send(encode_frame(Frame(code, opaque, ext, body, kind=kind)))
        while True:  # ends with the answer, the end of the connection or the socket's timeout
            while not self._frames:
                data = self.socket.recv(1 << 16)
                assert data, "the connection was closed instead of an answer"
                self._frames += self._decoder.feed(data)
            frame = self._frames.pop(0)
            if frame.is_response and frame.opaque == opaque:
                return frame

    def is_closed_by_peer(self) -> bool:
        """Wait for the other side to close; False when it still is open after a while."""
        with contextlib.suppress(ConnectionResetError):
            try:
                while self.socket.recv(1 << 16):
                    pass
            except TimeoutError:
                return False
        return True

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def raw(address: str) -> Iterator[RawClient]:
    client = RawClient(address)
    try:
        yield client
    finally:
        client.close()


def send_fields(topic: str, queue_id: int = 0, **changes: Any) -> dict[str, Any]:
    """Fields of a send (310) with some of them changed."""
    fields: dict[str, Any] = {
        "a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": queue_id, "f": 0,
        "g": int(time.time() * 1000), "h": 0, "i": "", "j": 0, "k": "false", "l": 16,
        "m": "false", "n": "broker-a",
    }  # fmt: skip
    return fields | changes


def pull_fields(topic: str, queue_id: int = 0, offset: int = 0, **changes: Any) -> dict[str, Any]:
    """Fields of a pull (11) that brings its subscription along."""
    fields: dict[str, Any] = {
        "consumerGroup": "g", "topic": topic, "queueId": queue_id, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 0, "subscription": "*", "expressionType": "TAG",
    }  # fmt: skip
    return fields | changes


# Bytes that are no remoting frame: sizes over every limit, below zero, that contradict each other,
# unknown kinds, headers that are no JSON, and other protocols.
NO_FRAMES: Mapping[str, bytes] = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "size over the limit": struct.pack(">iI", 1 << 30, 0),
    "size below zero": struct.pack(">iI", -1, 0),
    "size too small": struct.pack(">iI", 2, 0),
    "header over the frame": struct.pack(">iI", 100, 200),
    "header over the limit": struct.pack(">iI", 9 << 20, 8 << 20),
    "unknown kind": struct.pack(">iI", 100, 7 << 24 | 10),
    "header no JSON": struct.pack(">iI", 12, 8) + b"not json",
    "header a list": struct.pack(">iI", 6, 2) + b"[]",
    "header no UTF-8": struct.pack(">iI", 8, 4) + b"\xff\xfe\xfd\xfc",
    "binary header cut off": struct.pack(">iI", 8, 1 << 24 | 4) + b"\0\1\2\3",
    "header nested without end": struct.pack(">iI", 900_004, 900_000) + b"[" * 900_000,
    "code is no number": struct.pack(">iI", 16, 12) + b'{"code":"x"}',
    "binary text longer than the frame": struct.pack(">iI", 25, 1 << 24 | 21)
    + struct.pack(">hBhiii", 10, 0, 1, 1, 0, 1 << 30)
    + bytes(4),
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
}
