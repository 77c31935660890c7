"""Rights that the two requests on the hot path need: sends and pulls."""

from __future__ import annotations

from cluster.core.access.needs import Needs, as_producer, to_consume, to_publish
from cluster.protocol.headers import PullRequest
from cluster.protocol.send import SendRequest
from commitlog.records.properties import find_property
from commitlog.records.property_names import PRODUCER_GROUP
from commitlog.records.sys_flag import TRANSACTION_MASK


def needs_of_send(request: SendRequest) -> Needs:
    """Permissions for 10, 310, 320. A half message needs the group in its own property, which
    may differ from the request's header.
    """
    template = request.template
    needs = to_publish(template.topic) | as_producer(template.producer_group)
    if template.sys_flag & TRANSACTION_MASK:
        asked = find_property(request.properties, PRODUCER_GROUP.encode())
        if asked is not None:
            needs |= as_producer(asked.decode("utf-8", "replace"))
    return needs


def needs_of_pull(request: PullRequest) -> Needs:
    """Permission for 11 and 361: to consume the topic as a member of the group."""
    return to_consume(request.topic, request.consumer_group)
