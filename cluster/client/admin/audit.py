"""The audit logs of a cluster, read page by page."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import ClusterError, RequestNotSupported, Unauthorized
from cluster.protocol.audit_headers import ListAuditRequest, RecordActionRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import read_answer

ROWS_MAX = 200
"""Rows that one answer has at most."""


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries of one broker name's audit log.

    Attributes:
        rows: as request 31020 has them (cluster/broker/access/audit/requests.py), and `broker`.
        following: the number to go on behind; None: there is nothing more.
        damaged: records that are passed over, because the leader's disk has them no more as they
            were written.
    """

    rows: list[dict[str, Any]]
    following: int | None
    damaged: int


async def audit_page(
    instance: ClientInstance,
    broker: str,
    *,
    count: int = 50,
    before: int | None = None,
    after: int | None = None,
    since_ms: int | None = None,
    account: str | None = None,
    target: str | None = None,
    outcome: str | None = None,
) -> AuditPage:
    """One page of a broker name: the newest first; with `after`, the oldest first.

    Args:
        before: those with lower numbers only.
        after: those with higher numbers only.
        since_ms: those of that time (ms since 1970) or later.
        account: those of that access key.
        target: those with this text in their target.
        outcome: done, begun or refused.

    Raises RequestNotSupported from a broker without an audit log, Unauthorized, ClusterError.
    """
    request = ListAuditRequest(count, before, after, since_ms, account, target, outcome, broker)
    answer = await ask_leader(
        instance, broker, DEFAULT_TOPIC, RequestCode.LIST_AUDIT, encode(request)
    )
    found = read_answer(answer.body, "audit entries")
    rows = [{"broker": broker, **row} for row in found["rows"]]
    return AuditPage(rows, found["next"], found.get("damaged", 0))


@dataclass(frozen=True, slots=True)
class NewestEntries:
    """Entries of all broker names, the newest first.

    Attributes:
        rows: as those of an AuditPage.
        names: of the broker names that answered, in their order.
        places: broker name → the number to go on before (None: its newest); without those that
            have no more. A name that failed is among them, so that it comes with the page on
            which it answers again; one without an audit log is, as long as others have more, so
            that each page tells of it.
        damaged: broker name → records that are passed over, because its leader's disk has them
            no more as they were written.
        left_out: broker name → why it has told nothing.
    """

    rows: list[dict[str, Any]]
    names: list[str]
    places: dict[str, int | None]
    damaged: dict[str, int]
    left_out: dict[str, str]


async def newest_entries(
    instance: ClientInstance,
    count: int,
    *,
    places: Mapping[str, int | None] | None = None,
    asks_max: int | None = None,
    **filters: Any,
) -> NewestEntries:
    """The newest `count` entries that fit the filters of `audit_page`.

    A broker name of a release without an audit log, or without a leader now, is left out.

    Args:
        places: those that an answer before had; None: all broker names, from the newest on.
        asks_max: pages that one broker name is asked for. With a filter an answer may then have
            fewer rows, and places to go on at.

    Raises Unauthorized; ClusterError when no broker name answers.
    """
    names = sorted(await instance.routes.registered())
    begin = dict.fromkeys(names) if places is None else {n: places[n] for n in names if n in places}
    found: dict[str, _Found] = {}
    left_out: dict[str, str] = {}
    may_answer: list[str] = []
    failed: ClusterError | None = None
    for name, before in begin.items():
        try:
            found[name] = await _newest(instance, name, count, before, asks_max, filters)
        except Unauthorized:
            raise
        except RequestNotSupported as error:
            left_out[name], failed = "its release has no audit log", error
        except ClusterError as error:
            left_out[name], failed = str(error), error
            may_answer.append(name)
    if failed is not None and not found:
        raise failed
    merged = sorted(
        (row for one in found.values() for row in one.rows), key=lambda row: -row["at_ms"]
    )[:count]
    following: dict[str, int | None] = {name: begin[name] for name in may_answer}
    for name, one in found.items():
        taken = [row["number"] for row in merged if row["broker"] == name]
        if len(taken) < len(one.rows):
            following[name] = taken[-1] if taken else begin[name]
        elif one.following is not None:
            following[name] = one.following
    if following:
        following |= {name: begin[name] for name in left_out}
    damaged = {name: one.damaged for name, one in found.items() if one.damaged}
    return NewestEntries(merged, list(found), following, damaged, left_out)


@dataclass(slots=True)
class _Found:
    rows: list[dict[str, Any]]
    following: int | None
    damaged: int


async def _newest(
    instance: ClientInstance,
    broker: str,
    count: int,
    before: int | None,
    asks_max: int | None,
    filters: Mapping[str, Any],
) -> _Found:
    found = _Found([], before, 0)
    for asked in itertools.count(1):
        number = min(count - len(found.rows), ROWS_MAX)
        page = await audit_page(instance, broker, count=number, before=found.following, **filters)
        found.rows += page.rows
        found.damaged += page.damaged
        found.following = page.following
        if page.following is None or len(found.rows) >= count or asked == asks_max:
            break
    return found


async def record_action(
    instance: ClientInstance,
    verb: str,
    target: str,
    command: str,
    details: Mapping[str, Any],
    *,
    broker: str,
) -> str:
    """Put an action of a tool into a broker name's audit log, before its first step.

    Returns "", or why the log has it not: a release without one, or an account that is no
    administrator's, which may do the action all the same. Raises ClusterError.
    """
    request = encode(RecordActionRequest(verb, target, command, broker))
    code, body = RequestCode.RECORD_ACTION, orjson.dumps(dict(details))
    try:
        await ask_leader(instance, broker, DEFAULT_TOPIC, code, request, body=body)
    except RequestNotSupported:
        return f"the audit log has no entry of this: the release of {broker} has none"
    except Unauthorized:
        return "the audit log has no entry of this: the account is no administrator's"
    return ""
