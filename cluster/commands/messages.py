"""`dledger produce` and `consume`: a pipe into a topic and out of it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import click

from cluster.client import ConsumerConfig, ProducerConfig, ReceivedMessage
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import USAGE, CommandError
from cluster.commands.output import format_option, to_json
from cluster.core.topics import topic_name_error

# Lines on their way at once; the client's own window bounds them further.
LINES_AHEAD = 1024
LINE_BYTES_MAX = 4 << 20
TERMINATED = 128 + signal.SIGTERM
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}


@click.command()
@click.argument("topic")
@address_option
@click.option("-k", "--key", help="The same key for every line: they stay in one queue, in order.")
@click.option("-t", "--tag", help="The same tag for every line.")
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds a line.")
@format_option("table", "jsonl")
def produce(
    topic: str, address: Reach, key: str | None, tag: str | None, timeout: float, output: str
) -> None:
    """Send each line of stdin to TOPIC; ends when a majority has all of them on disk."""
    config = ProducerConfig(delivery_timeout=timeout)
    count = asyncio.run(_produce(topic, address, key, tag, config, output))
    if output == "table":
        click.echo(f"{count} acknowledged", err=True)


async def _produce(
    topic: str,
    address: Reach,
    key: str | None,
    tag: str | None,
    config: ProducerConfig,
    output: str,
) -> int:
    count = 0
    waiting: list[asyncio.Task[Any]] = []

    async def settle() -> None:
        nonlocal count
        for receipt in await asyncio.gather(*waiting):
            count += 1
            if output == "jsonl":
                click.echo(to_json(receipt_row(receipt)))
        waiting.clear()

    async with connected(address) as client, client.producer(config=config) as producer:
        # stdin is read in a thread: a slow pipe must not stop the client's heartbeats.
        while line := await asyncio.to_thread(sys.stdin.buffer.readline, LINE_BYTES_MAX + 2):
            body = line.removesuffix(b"\n")
            if len(body) > LINE_BYTES_MAX:
                await settle()
                raise CommandError(
                    f"line {count + 1} has more than {LINE_BYTES_MAX} bytes, the limit of a "
                    f"message; shorten it (the {count} lines before it were sent)",
                    USAGE,
                )
            waiting.append(asyncio.ensure_future(producer.send(topic, body, key=key, tags=tag)))
            if len(waiting) >= LINES_AHEAD:
                await settle()
        await settle()
    return count


def receipt_row(receipt: Any) -> dict[str, Any]:
    """A receipt for people and programs."""
    return {
        "queue": receipt.queue.queue_id,
        "queue_offset": receipt.queue_offset,
        "position": receipt.position,
        "index": receipt.index,
        "term": receipt.term,
        "message_id": receipt.message_id,
    }


@click.command()
@click.argument("topic")
@address_option
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many messages.")
@click.option(
    "-g", "--group", help="Consumer group; without it everything is read, and no trace left."
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["first", "last"]),
    default="first",
    show_default=True,
    help="Where to begin.",
)
@click.option("-t", "--tags", default="*", help="Only messages with these tags: 'a || b'.")
@click.option("-f", "--format", "form", default="%v\\n", help="%t %q %o %p %k %v, \\n, \\t.")
@format_option("table", "jsonl")
def consume(
    topic: str,
    address: Reach,
    count: int | None,
    group: str | None,
    start: str,
    tags: str,
    form: str,
    output: str,
) -> None:
    """Print the messages of TOPIC, oldest first; without -n until Ctrl-C.

    With -g the group goes on behind what was printed, however this ends; another call prints what
    follows.

    In a format, %t is the topic, %q the queue, %o the offset in it, %p the position in the log,
    %k the keys, %v the body.
    """
    wrong = topic_name_error(topic)
    if wrong is not None:
        raise CommandError(wrong, USAGE)
    write = render(form) if output == "table" else _json_line
    config = ConsumerConfig(start=start, tags=tags, manual_ack=True)
    try:
        asyncio.run(_consume(topic, address, count, group, config, write))
    except asyncio.CancelledError:
        raise SystemExit(TERMINATED) from None


async def _consume(
    topic: str,
    address: Reach,
    count: int | None,
    group: str | None,
    config: ConsumerConfig,
    write: Callable[[ReceivedMessage], bytes],
) -> None:
    """A message counts as consumed when all of it is written, and the group hears of it before the
    command ends: by -n, Ctrl-C, SIGTERM, or a pipe that is closed."""
    out, task = sys.stdout.buffer, asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with connected(address) as client:
        if group is None:
            reader = client.reader(topic, config=config)
        else:
            reader = client.consumer(topic, group=group, config=config)
        async with reader:
            seen = 0
            try:
                async for message in reader:
                    _write_all(out, write(message))
                    reader.ack(message)
                    seen += 1
                    if seen == count:
                        return
                    await asyncio.sleep(0)  # or signals and heartbeats wait for what is buffered
            finally:
                await reader.commit()  # it raises where closing would only warn


def _write_all(out: BinaryIO, data: bytes) -> None:
    """A signal may cut one write short where Python does not buffer (-u, PYTHONUNBUFFERED)."""
    rest = memoryview(data)
    while rest:
        rest = rest[out.write(rest) :]
    out.flush()


def render(form: str) -> Callable[[ReceivedMessage], bytes]:
    """A function that writes a message as the format says. Raises CommandError for a bad one."""
    fields: dict[str, Callable[[ReceivedMessage], bytes]] = {
        "t": lambda message: message.topic.encode(),
        "q": lambda message: str(message.queue.queue_id).encode(),
        "o": lambda message: str(message.queue_offset).encode(),
        "p": lambda message: str(message.position).encode(),
        "k": lambda message: " ".join(message.keys).encode(),
        "v": lambda message: message.body,
        "%": lambda message: b"%",
    }
    parts: list[bytes | Callable[[ReceivedMessage], bytes]] = []
    rest = iter(form)
    for letter in rest:
        if letter not in "%\\":
            parts.append(letter.encode())
            continue
        following = next(rest, "")
        known: Any = (fields if letter == "%" else ESCAPES).get(following)
        if known is None:
            raise CommandError(
                f"{letter}{following} in the format means nothing; use %t %q %o %p %k %v %% "
                "\\n \\t \\\\",
                USAGE,
            )
        parts.append(known.encode() if isinstance(known, str) else known)
    return lambda message: b"".join(p if isinstance(p, bytes) else p(message) for p in parts)


def _json_line(message: ReceivedMessage) -> bytes:
    row = {
        "topic": message.topic,
        "queue": message.queue.queue_id,
        "queue_offset": message.queue_offset,
        "position": message.position,
        "keys": message.keys,
        "tags": message.tags,
        "properties": dict(message.properties),
        "store_timestamp_ms": message.store_timestamp_ms,
        "body": message.body.decode("utf-8", "backslashreplace"),
    }
    return to_json(row).encode() + b"\n"
