"""Runs in a process of its own: the official C++ client (PyPI rocketmq) does what it is told.

    cpp_client.py NAMESERVER produce TOPIC COUNT     sync, orderly, oneway and one batch
    cpp_client.py NAMESERVER push TOPIC GROUP COUNT  concurrent consumer until COUNT bodies came
    cpp_client.py NAMESERVER pull TOPIC GROUP        everything that is there
    cpp_client.py NAMESERVER failover TOPIC SENDS_PER_SECOND KEY SECRET
        sends and consumes with an account; on stdin `mark` asks for counts, `stop` for everything

One JSON line on stdout, and one for each `mark`. The library writes logs below $HOME and may end
the process on its own, so it never runs inside the process of the test.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer
from rocketmq.exceptions import ProducerSendSyncFailed

SECONDS_MAX = 40.0
ROUTE_TRIES = 5
CATCH_UP_SECONDS_MAX = 45.0  # a consumer looks for the new address of a broker name every 30 s


def message(topic: str, body: str) -> Any:
    made = Message(topic)
    label = body[:40]
    made.set_keys(f"key-{label}")
    made.set_tags("TagA")
    made.set_body(body)
    made.set_property("mine", label)
    return made


def send(producer: Any, made: Any) -> Any:
    """A send, again where the library had no route: it waits for that so long, and sent nothing."""
    for _ in range(ROUTE_TRIES - 1):
        try:
            return producer.send_sync(made)
        except ProducerSendSyncFailed as error:
            if "No route info" not in str(error):
                raise
    return producer.send_sync(made)


def produce(nameserver: str, topic: str, count: int) -> list[dict[str, Any]]:
    producer = Producer("PG_CPP_TEST")
    producer.set_namesrv_addr(nameserver)
    producer.start()
    sent = []
    for number in range(count):
        result = send(producer, message(topic, f"sync-{number}"))
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


class Failover:
    """A producer and a push consumer with an account, while somebody kills leaders."""

    def __init__(self, nameserver: str, topic: str, account: tuple[str, str]) -> None:
        self._topic = topic
        self._acks: list[str] = []
        self._failures: list[dict[str, str]] = []
        self._received: set[str] = set()
        self._came = threading.Condition()
        self._over = threading.Event()
        self._producer = Producer(f"G_{topic}_P")
        self._consumer = PushConsumer(f"G_{topic}_C")
        for client, role in ((self._producer, "sends"), (self._consumer, "consumes")):
            client.set_namesrv_addr(nameserver)
            client.set_session_credentials(*account, "")
            if role == "consumes":
                client.set_instance_name(role)
                client.subscribe(topic, self._take)
            client.start()

    def _take(self, one: Any) -> None:
        with self._came:
            self._received.add(one.body.decode())
            self._came.notify()

    def send(self, per_second: int) -> None:
        number = 0
        while not self._over.wait(1 / per_second):
            number += 1
            label = f"kill-{number}"
            try:
                self._producer.send_sync(message(self._topic, label))
            except Exception as error:
                self._failures.append({"label": label, "error": repr(error)})
            else:
                self._acks.append(label)

    def counts(self) -> dict[str, Any]:
        failed, acked = len(self._failures), len(self._acks)
        received = len(self._received)
        return {"sent": acked + failed, "acked": acked, "failed": failed, "received": received}

    def everything(self) -> dict[str, Any]:
        with self._came:
            self._came.wait_for(lambda: self._received.issuperset(self._acks), CATCH_UP_SECONDS_MAX)
        return {
            **self.counts(),
            "acks": [{"label": label, "id": label} for label in self._acks],
            "failures": self._failures,
            "received_ids": sorted(self._received),
        }

    def serve(self, per_second: int) -> dict[str, Any]:
        """Answers each `mark`; what to say last."""
        sending = threading.Thread(target=self.send, args=(per_second,), daemon=True)
        sending.start()
        for order in sys.stdin:
            if order.strip() == "stop":
                break
            sys.stdout.write(json.dumps(self.counts()) + "\n")
            sys.stdout.flush()
        self._over.set()
        sending.join(SECONDS_MAX)
        return self.everything()


def main() -> None:
    nameserver, what, topic, *rest = sys.argv[1:]
    result: Any
    if what == "produce":
        result = produce(nameserver, topic, int(rest[0]))
    elif what == "failover":
        result = Failover(nameserver, topic, (rest[1], rest[2])).serve(int(rest[0]))
    elif what == "push":
        result = push(nameserver, topic, rest[0], int(rest[1]))
    else:
        result = pull(nameserver, topic, rest[0])
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the library's threads may outlive its shutdown


if __name__ == "__main__":
    main()
