"""Messages followed, sent, and sent again; answers have the `dledger` command that does it."""

from __future__ import annotations

import base64
from typing import Any

from cluster.client.admin.audit import record_action
from cluster.client.admin.message_trace import Step, trace
from cluster.client.admin.resending import check_group_gets_it, resend
from cluster.client.admin.stored_messages import message_at
from cluster.client.message import Receipt, ReceivedMessage
from cluster.client.producer.producer import Producer
from cluster.console.api.bodies import clean
from cluster.console.api.changes import command, iso_time
from cluster.console.api.failures import ApiError
from cluster.console.api.messages import page_of_messages
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.errors import ClusterError, TopicNotFound
from cluster.protocol.json_body import MessageQueue
from commitlog.records.names import DLQ_PREFIX


async def trace_message(source: Source, values: Values) -> dict[str, Any]:
    """One message's steps. Raises NotFound, InvalidRequest."""
    found = await trace(source.client.instance, values["topic"], values["key"])
    return {
        "topic": found.topic,
        "message_id": clean(found.message_id),
        "steps": [step_json(step) for step in found.steps],
        "command": command("message", "trace", found.topic, "-k", found.message_id),
    }


def step_json(step: Step) -> dict[str, Any]:
    """One step as JSON; its texts may come from a producer, so they are cleaned."""
    group = None if step.group is None else clean(step.group)
    return step.row() | {"group": group, "detail": clean(step.detail)}


async def send_message(source: Source, values: Values) -> dict[str, Any]:
    """Send one message to a topic that exists. Raises TopicNotFound, ApiError (400)."""
    topic, text = values["topic"], values["body"]
    try:
        body = base64.b64decode(text, validate=True) if values["base64"] else text.encode()
    except ValueError as error:
        raise ApiError(400, "bad-value", "body is no base64; give base64, or text") from error
    route = await source.client.instance.routes.refresh(topic)  # a send could create it
    key, tag = values["key"] or None, values["tag"] or None
    words = [*(("-k", key) if key else ()), *(("-t", tag) if tag else ())]
    said = command("produce", topic, *words)
    logged = {"key": key, "tag": tag, "bytes": len(body)}
    not_logged = await record_action(
        source.client.instance,
        "message send",
        f"topic {topic}",
        said,
        logged,
        broker=route.brokers[0].broker_name,
    )
    async with source.client.producer() as producer:
        receipt = await producer.send(topic, body, key=key, tags=tag)
    return {**_receipt(receipt), "not_logged": not_logged, "command": said}


async def resend_message(source: Source, values: Values) -> dict[str, Any]:
    """Send one message again. Raises NotFound, TopicNotFound, InvalidRequest, ApiError (400)."""
    topic, group = values["to_topic"] or None, values["to_group"] or None
    if topic and group:
        raise ApiError(400, "bad-value", "to_topic and to_group are both given; give one of them")
    queue = MessageQueue(values["topic"], values["broker"], values["queue"])
    message = await message_at(source.client.instance, queue, values["offset"])
    words: list[object] = ["message", "resend", queue.topic]
    words += ["--at", f"{queue.broker_name}:{queue.queue_id}:{message.queue_offset}"]
    words += ["--to-topic", topic] if topic else ["--to-group", group] if group else []
    not_logged = await record_action(
        source.client.instance,
        "message resend",
        f"topic {queue.topic}",
        command(*words),
        {"to_topic": topic, "to_group": group},
        broker=queue.broker_name,
    )
    async with source.client.producer() as producer:
        receipt = await _send(source, producer, message, topic, group)
    return {**_receipt(receipt), "not_logged": not_logged, "command": command(*words)}


async def _send(
    source: Source,
    producer: Producer,
    message: ReceivedMessage,
    topic: str | None,
    group: str | None,
) -> Receipt:
    receipt = await resend(source.client.instance, producer, message, topic=topic, group=group)
    if group is not None:
        await check_group_gets_it(source.client.instance, receipt, group)
    return receipt


def _receipt(receipt: Receipt) -> dict[str, Any]:
    return {
        "topic": receipt.queue.topic,
        "broker": receipt.queue.broker_name,
        "queue": receipt.queue.queue_id,
        "offset": receipt.queue_offset,
        "message_id": receipt.message_id,
    }


async def resend_dead_letters(source: Source, values: Values) -> dict[str, Any]:
    """Send a page of dead letters again; they stay where they are, too.

    The first error ends it: then `failed` says why, and `cursor` is behind those that were sent.
    Raises InvalidRequest, ClusterError when none was sent.
    """
    group = values["group"]
    rest = {"queue": None, "broker": None, "offset": None, "order": "oldest"}
    asked = {**values, **rest, "topic": DLQ_PREFIX + group}
    try:
        page, cursor = await page_of_messages(source, asked)
    except TopicNotFound:  # the first dead letter makes the topic
        page, cursor = [], None
    failed, not_logged = None, ""
    said = _dead_letters_command(values)
    if page and not values["dry_run"]:
        not_logged = await record_action(
            source.client.instance,
            "dlq resend",
            f"group {group}",
            said,
            {"messages": len(page), "to": values["to"]},
            broker=page[0].queue.broker_name,
        )
        sent, failed = await _send_page(source, page, group if values["to"] == "group" else None)
        if failed is not None:
            page, cursor = await page_of_messages(source, {**asked, "limit": sent})
    return {
        "dry_run": values["dry_run"],
        "messages": len(page),
        "cursor": cursor,
        "failed": failed,
        "not_logged": not_logged,
        "command": said,
    }


def _dead_letters_command(values: Values) -> str:
    words: list[object] = ["dlq", "resend", values["group"], "--to", values["to"]]
    words += ["-n", values["limit"]]
    for name in ("from", "to"):
        if (at := values[f"{name}_ms"]) is not None:
            words += [f"--{'since' if name == 'from' else 'until'}", iso_time(at)]
    return command(*words)


async def _send_page(
    source: Source, page: list[ReceivedMessage], to_group: str | None
) -> tuple[int, str | None]:
    """How many were sent, and why not all. Raises ClusterError when none was."""
    sent = 0
    async with source.client.producer() as producer:
        for message in page:
            try:
                await _send(source, producer, message, None, to_group)
            except ClusterError as error:
                if not sent:
                    raise
                return sent, str(error)
            sent += 1
    return sent, None
