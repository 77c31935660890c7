"""An ordered member of a group, ours, in a process of its own; the twin of Orderly.java.

    python -m tests.interop.harness.ordered_member NAMESERVER TOPIC GROUP FOLDER NAME

What it writes is drawn there. It is in its handler until FOLDER/sent-N says that the queue has a
message behind the one in hand, so that almost always one is. It ends in order when its input does.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
from pathlib import Path

import cluster
from cluster.client import ConsumerConfig, ReceivedMessage
from cluster.client.consumer import consumer, queue_locks, rebalance
from tests.waiting import eventually

from .short_locks import RENEW_SECONDS, TRUSTED_SECONDS


class Handler:
    """Writes down what it handles, while the queue's file is locked."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._open: set[str] = set()  # a process is not kept out by its own lock

    async def __call__(self, message: ReceivedMessage) -> None:
        queue = f"queue-{message.queue.queue_id}"
        line = f"{self._name} {message.queue_offset} {message.properties['label']}"
        if queue in self._open:
            self._append("together", f"{queue} {line}")
            return
        self._open.add(queue)
        try:
            with (self._folder / f"{queue}.lock").open("ab") as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    self._append("together", f"{queue} {line}")
                    return
                self._append(f"{queue}.log", line)
                sent = self._folder / f"sent-{message.queue.queue_id}"
                await eventually(
                    lambda: int(sent.read_text() or "0") > message.queue_offset + 1, "the next one"
                )
        finally:
            self._open.discard(queue)

    def _append(self, name: str, line: str) -> None:
        with (self._folder / name).open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())


async def main(nameserver: str, topic: str, group: str, folder: str, name: str) -> None:
    consumer.RENEW_PERIOD = RENEW_SECONDS  # type: ignore[attr-defined]
    queue_locks.TRUSTED_SECONDS = TRUSTED_SECONDS
    rebalance.HANDOVER_PAUSE = 0.0  # the locks alone keep members apart
    config = ConsumerConfig(ordered=True, manual_ack=True)
    async with (
        cluster.connect(nameserver) as mq,
        mq.consumer(topic, group=group, config=config) as member,
    ):
        running = asyncio.ensure_future(member.run(Handler(Path(folder), name), concurrency=4))
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        await member.close()
        await running


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
