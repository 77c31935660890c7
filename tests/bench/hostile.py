"""Clients without manners, each the work of a process of its own, until it is killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Callable

from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FRAME_SIZE_MAX, Frame, encode_frame
from cluster.protocol.json_body import ITEMS_MAX

TOPIC, GROUP = "hostile", "hostile-group"
NEW_TOPICS = 3_000
#: Rows that the broker takes in one list; one more is refused.
ROWS_MAX = 1_000
#: Commas and brackets of one queue in a body.
QUEUE_ITEMS = 4
PIPELINED_MAX = 200


def burn() -> None:
    """As much of a processor as there is, and nothing sent."""
    while True:  # until it is killed
        pass


def _reading(connection: socket.socket) -> None:
    def read() -> None:
        with contextlib.suppress(OSError):
            while connection.recv(1 << 20):
                pass

    threading.Thread(target=read, daemon=True).start()


def _send_for_ever(host: str, port: int, data: bytes) -> None:
    """Again when it is cut off."""
    while True:  # until it is killed
        with contextlib.suppress(OSError), socket.create_connection((host, port)) as connection:
            _reading(connection)
            while True:  # until it is cut off
                connection.sendall(data)


def cheapest(host: str, port: int) -> None:
    """The cheapest request, pipelined, the answers read."""
    ask = Frame(RequestCode.GET_MAX_OFFSET, 1, {"topic": TOPIC, "queueId": "0"})
    _send_for_ever(host, port, encode_frame(ask) * PIPELINED_MAX)


def largest_lists(host: str, port: int) -> None:
    """Lists as long as a request may have: queues to lock, subscriptions that change each time,
    and more queues than are looked at."""
    queues = [
        {"brokerName": "broker-a", "queueId": number, "topic": TOPIC}
        for number in range(ITEMS_MAX // QUEUE_ITEMS - 10)
    ]
    data = b""
    for turn, count in enumerate((ROWS_MAX, ROWS_MAX, len(queues))):
        lock = {"consumerGroup": GROUP, "clientId": "hostile", "mqSet": queues[:count]}
        data += _request(RequestCode.LOCK_BATCH_MQ, lock)
        data += _request(RequestCode.HEART_BEAT, _heartbeat(turn))
    _send_for_ever(host, port, data)


def _request(code: RequestCode, body: object) -> bytes:
    return encode_frame(Frame(code, 1, {}, json.dumps(body, separators=(",", ":")).encode()))


def _heartbeat(turn: int) -> dict[str, object]:
    subscriptions = [
        {"topic": f"{TOPIC}-{turn}-{number}", "subString": "*", "tagsSet": [], "codeSet": [],
         "subVersion": number, "classFilterMode": False, "filterClassSource": None,
         "expressionType": "TAG"}
        for number in range(ROWS_MAX)
    ]  # fmt: skip
    consumer = {
        "groupName": GROUP, "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": subscriptions, "unitMode": False,
    }  # fmt: skip
    return {"clientID": "hostile", "producerDataSet": [], "consumerDataSet": [consumer]}


def partial_frames(host: str, port: int) -> None:
    """Frames of the largest size but for their last byte; the next one when it is cut off."""
    header = encode_frame(Frame(RequestCode.SEND_MESSAGE_V2, 1, {"b": TOPIC}))[4:]
    size = FRAME_SIZE_MAX - 4
    begin = struct.pack(">i", size) + header
    rest, piece = size - len(header) - 1, bytes(1 << 20)
    held: list[socket.socket] = []
    while True:  # until it is killed
        with contextlib.suppress(OSError):
            connection = socket.create_connection((host, port))
            held.append(connection)
            connection.sendall(begin)
            for at in range(0, rest, len(piece)):
                connection.sendall(piece[: rest - at])
        for one in held[:-50]:
            one.close()
        held = held[-50:]


def new_topics(host: str, port: int) -> None:
    """One message to each of very many topics that are not there, then again from the first on."""
    fields = {
        "a": "hostile", "c": "TBW102", "d": "4", "e": "0", "f": "0", "h": "0", "i": "", "j": "0",
        "k": "false", "l": "16", "m": "false", "n": "broker-a",
    }  # fmt: skip
    with socket.create_connection((host, port)) as connection:
        _reading(connection)
        for number in itertools.cycle(range(NEW_TOPICS)):
            ask = fields | {"b": f"new-{number}", "g": str(int(time.time() * 1000))}
            connection.sendall(encode_frame(Frame(RequestCode.SEND_MESSAGE_V2, number, ask, b"x")))


KINDS: dict[str, Callable[[str, int], None]] = {
    "cheapest": cheapest,
    "largest-lists": largest_lists,
    "partial-frames": partial_frames,
    "new-topics": new_topics,
}
