"""Runs in a process of its own: the official C++ client (PyPI rocketmq) does what it is told.

    cpp_client.py NAMESERVER produce TOPIC COUNT     sync, orderly, oneway and one batch
    cpp_client.py NAMESERVER push TOPIC GROUP COUNT  concurrent consumer until COUNT bodies came
    cpp_client.py NAMESERVER pull TOPIC GROUP        everything that is there

One JSON line on stdout. The library writes logs below $HOME and may end the process on its own, so
it never runs inside the test's process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer

SECONDS_MAX = 40.0


def message(topic: str, body: str) -> Any:
    made = Message(topic)
    label = body[:40]
    made.set_keys(f"key-{label}")
    made.set_tags("TagA")
    made.set_body(body)
    made.set_property("mine", label)
    return made


def produce(nameserver: str, topic: str, count: int) -> list[dict[str, Any]]:
    producer = Producer("PG_CPP_TEST")
    producer.set_namesrv_addr(nameserver)
    producer.start()
    sent = []
    for number in range(count):
        result = producer.send_sync(message(topic, f"sync-{number}"))
        sent.append({"id": result.msg_id, "offset": result.offset, "status": int(result.status)})
    for number in range(count):
        producer.send_orderly(message(topic, f"orderly-{number}"), 1)
    producer.send_oneway(message(topic, "oneway"))
    producer.send_batch([message(topic, f"batch-{number}") for number in range(count)])
    # A body over 4 KiB: the library compresses it.
    producer.send_sync(message(topic, "large-" + "x" * 20_000))
    producer.shutdown()
    return sent


def push(nameserver: str, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    enough = threading.Event()

    def received(one: Any) -> None:
        found.append(
            {
                "body": one.body.decode(),
                "tags": one.tags.decode(),
                "keys": one.keys.decode(),
                "queue": one.queue_id,
                "offset": one.queue_offset,
            }
        )
        if len({row["body"] for row in found}) >= count:
            enough.set()

    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(nameserver)
    consumer.subscribe(topic, received)
    consumer.start()
    enough.wait(SECONDS_MAX)
    consumer.shutdown()
    return found


def pull(nameserver: str, topic: str, group: str) -> list[str]:
    consumer = PullConsumer(group)
    consumer.set_namesrv_addr(nameserver)
    consumer.start()
    found = [one.body.decode() for one in consumer.pull(topic)]
    consumer.shutdown()
    return found


def main() -> None:
    nameserver, what, topic, *rest = sys.argv[1:]
    result: Any
    if what == "produce":
        result = produce(nameserver, topic, int(rest[0]))
    elif what == "push":
        result = push(nameserver, topic, rest[0], int(rest[1]))
    else:
        result = pull(nameserver, topic, rest[0])
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the library's threads may outlive its shutdown


if __name__ == "__main__":
    main()
