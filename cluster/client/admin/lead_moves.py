"""The leaders of each broker name, and why the lead moved: each replica's list in one.

Every replica is asked (31022), so a move is known while one node lives that saw it. A node tells
the reason only of the elections that it won: its row counts, where there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.client.routing.client_instance import ClientInstance
from cluster.errors import ClusterError, RequestNotSupported
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.replica_headers import ListLeadersRequest


@dataclass(frozen=True, slots=True)
class LeadMoves:
    """The leaders of one broker name, the oldest first.

    Attributes:
        since_ms: what was before is known to no node that answers; None: none has answered.
        rows: at_ms, term, before (the leader before it that is known; None: none is), leader, why.
        left_out: nodes that do not answer, or are of a release without this, by address.
    """

    group: str
    since_ms: int | None
    rows: list[dict[str, Any]]
    left_out: list[str]


async def lead_moves(instance: ClientInstance) -> list[LeadMoves]:
    """The leaders of every broker name, in the order of the names. Raises NotConnected."""
    brokers = await instance.routes.cluster()
    return list(
        await asyncio.gather(
            *(_of_group(instance, name, brokers[name].nodes) for name in sorted(brokers))
        )
    )


async def _of_group(instance: ClientInstance, group: str, addresses: Iterable[str]) -> LeadMoves:
    addresses = list(addresses)
    answers = await asyncio.gather(*(_one(instance, group, address) for address in addresses))
    told = [answer for answer in answers if answer is not None]
    pairs = zip(addresses, answers, strict=True)
    return LeadMoves(
        group,
        min((int(answer["since_ms"]) for answer in told), default=None),
        merged(told),
        [address for address, answer in pairs if answer is None],
    )


async def _one(instance: ClientInstance, group: str, address: str) -> dict[str, Any] | None:
    try:
        connection = await instance.pool.get(address)
        answer = await connection.ask(
            RequestCode.LIST_LEADERS,
            encode(ListLeadersRequest(group)),
            time_limit=instance.config.request_timeout,
        )
    except RequestNotSupported:
        return None
    except ClusterError as error:
        if not error.retriable:
            raise
        return None
    found: dict[str, Any] = orjson.loads(answer.body)
    return found


def merged(answers: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each term, in their order: the winner's own, else the earliest."""
    best: dict[int, tuple[bool, int, dict[str, Any]]] = {}
    for answer in answers:
        for row in answer["rows"]:
            rank = (row["leader"] != answer["node"], row["at_ms"], row)
            if row["term"] not in best or rank[:2] < best[row["term"]][:2]:
                best[row["term"]] = rank
    rows: list[dict[str, Any]] = []
    for term in sorted(best):
        row = best[term][2]
        before = rows[-1]["leader"] if rows else None
        rows.append(
            {
                "at_ms": int(row["at_ms"]),
                "term": int(term),
                "before": before,
                "leader": str(row["leader"]),
                "why": str(row["why"]),
            }
        )
    return rows
