"""The audit log for administrators: 31020 reads it, 31021 puts a tool's own action into it.

31020   {"broker": "broker-a", "next": 41, "rows": [{"number": 57, "at_ms": …, "verb": …, …}]}
        rows as cluster/core/audit/entry.py has them. `next`: the number to go on behind, as
        `before` or `after`; null where there is nothing more. A page looks at 1,000 entries, so it
        may have fewer rows than were asked for, and a `next`.
31021   answered when the entry is committed (trail.py writes it); JSON body: parameters
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import orjson

from cluster.broker.admin.audit.reading import newer, older
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.request_bodies import json_object
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN
from cluster.core.audit.entry import OUTCOMES, Audited
from cluster.errors import InvalidRequest
from cluster.protocol.audit_headers import ListAuditRequest, RecordActionRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.fields import decode
from cluster.protocol.frames import Frame

ROWS_MAX = 200
LOOKS_MAX = 1_000
"""Entries that one answer reads from the log."""


class RecordedAction(NamedTuple):
    """The fields of 31021, and its body."""

    verb: str
    target: str
    command: str
    details: dict[str, Any]


def list_audit(ports: AdminPorts, call: Call, request: ListAuditRequest) -> None:
    """31020."""
    if not 1 <= request.max_num <= ROWS_MAX or (request.outcome or OUTCOMES[0]) not in OUTCOMES:
        raise InvalidRequest(
            f"maxNum {request.max_num}, outcome {request.outcome!r:.20}; give 1 to {ROWS_MAX}, and "
            f"one of {', '.join(OUTCOMES)} or none"
        )

    def look() -> None:
        if request.after is not None:
            entries = newer(ports.derived, ports.reader, request.after)
        else:
            entries = older(ports.derived, ports.reader, request.before)
        rows: list[dict[str, Any]] = []
        following: int | None = None
        for count, audited in enumerate(itertools.islice(entries, LOOKS_MAX), 1):
            early = request.since_ms is not None and audited.at_ms < request.since_ms
            if early and request.after is None:
                break
            if not early and _is_wanted(request, audited):
                rows.append(audited.to_json())
            if len(rows) == request.max_num or count == LOOKS_MAX:
                following = audited.number
                break
        body = {"broker": ports.config.broker_name, "next": following, "rows": rows}
        call.answer(0, body=orjson.dumps(body))

    call.when_current(look)


def _is_wanted(request: ListAuditRequest, audited: Audited) -> bool:
    entry = audited.entry
    return (
        (request.account is None or entry.account == request.account)
        and (request.target is None or request.target in entry.target)
        and (request.outcome is None or entry.outcome == request.outcome)
    )


def _read_action(frame: Frame) -> RecordedAction:
    request = decode(RecordActionRequest, frame.ext)
    if not request.verb.strip():
        raise InvalidRequest("the verb is blank; say what is done, as dlq resend")
    details = json_object(frame, "an action") if frame.body else {}
    return RecordedAction(request.verb, request.target, request.command, details)


def record_action(ports: AdminPorts, call: Call, request: RecordedAction) -> None:
    """31021: the answer waits for the entry."""
    call.answer()


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.LIST_AUDIT: Handler(Who.LEADER, fields(ListAuditRequest), ADMIN, list_audit),
    RequestCode.RECORD_ACTION: Handler(Who.LEADER, _read_action, ADMIN, record_action),
}
