"""Messages that wait: delayed ones for their time, halves of transactions for their outcome."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import read_answer
from cluster.protocol.waiting_headers import ListWaitingRequest

PAGE = 200


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """Some messages that wait at one broker name, in the order of its log.

    Attributes:
        total: all that wait there.
        next_due_ms: when the next delivery is due; None for halves, and where none waits.
        rows: as request 31017 has them (cluster/broker/admin/waiting_requests.py), and `broker`.
        following: the address that the next page begins at; None: this is the last one.
    """

    total: int
    next_due_ms: int | None
    rows: list[dict[str, Any]]
    following: int | None


async def waiting_page(
    instance: ClientInstance, broker: str, kind: str, begin: int = 0, count: int = PAGE
) -> WaitingPage:
    """One page of a broker name.

    Args:
        kind: one of cluster.protocol.waiting_headers.KINDS.
        begin: the address of the first; `following` of the page before.

    Raises RequestNotSupported from a stock broker, ClusterError.
    """
    request = encode(ListWaitingRequest(kind, begin, count, bname=broker))
    answer = await ask_leader(instance, broker, DEFAULT_TOPIC, RequestCode.LIST_WAITING, request)
    found = read_answer(answer.body, "waiting messages")
    rows = [{"broker": broker, **row} for row in found["rows"]]
    return WaitingPage(found["total"], found["next_due_ms"], rows, found["next"])


async def waiting(instance: ClientInstance, kind: str) -> AsyncGenerator[dict[str, Any]]:
    """All that wait, broker name by broker name. Raises as `waiting_page`."""
    for broker in sorted(await instance.routes.registered()):
        begin: int | None = 0
        while begin is not None:
            page = await waiting_page(instance, broker, kind, begin)
            for row in page.rows:
                yield row
            begin = page.following
