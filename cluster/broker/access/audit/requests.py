"""The audit log for administrators: 31020 reads it, 31021 puts a tool's own action into it.

31020   {"broker": "broker-a", "next": 41, "damaged": 0, "rows": [{"number": 57, "verb": …, …}]}
        rows as cluster/core/audit/entry.py has them. `next`: the number to go on behind, as
        `before` or `after`; null where there is nothing more. A page looks at 1,000 entries, so it
        may have fewer rows than were asked for, and a `next`.
31021   answered when the entry is committed (trail.py writes it); JSON body: parameters
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from cluster.broker.access.audit.reading import newer, older
from cluster.broker.access.ports import AccessPorts
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


def list_audit(ports: AccessPorts, call: Call, request: ListAuditRequest) -> None:
    """31020."""
    if not 1 <= request.max_num <= ROWS_MAX or (request.outcome or OUTCOMES[0]) not in OUTCOMES:
        raise InvalidRequest(
            f"maxNum {request.max_num}, outcome {request.outcome!r:.20}; give 1 to {ROWS_MAX}, and "
            f"one of {', '.join(OUTCOMES)} or none"
        )

    call.when_current(lambda: _Listing(ports, call, request).step())


class _Listing:
    """One answer of 31020, read a piece at a time, with other work of the event loop between."""

    def __init__(self, ports: AccessPorts, call: Call, request: ListAuditRequest) -> None:
        self._ports, self._call, self._request = ports, call, request
        if request.after is not None:
            self._pieces = newer(ports.derived, ports.reader, request.after)
        else:
            self._pieces = older(ports.derived, ports.reader, request.before)
        self._rows: list[dict[str, Any]] = []
        self._looks = self._damaged = 0

    def step(self) -> None:
        """Read one piece; the rest later, unless it was the last one that is wanted."""
        piece = next(self._pieces, None)
        if piece is None:
            self._answer(None)
            return
        self._damaged += piece.damaged
        for audited in piece.entries:
            early = self._request.since_ms is not None and audited.at_ms < self._request.since_ms
            if early and self._request.after is None:
                self._answer(None)
                return
            self._looks += 1
            if not early and _is_wanted(self._request, audited):
                self._rows.append(audited.to_json())
            if len(self._rows) == self._request.max_num or self._looks == LOOKS_MAX:
                self._answer(audited.number)
                return
        self._call.later(0.0, self.step)

    def _answer(self, following: int | None) -> None:
        body = {
            "broker": self._ports.config.broker_name,
            "next": following,
            "damaged": self._damaged,
            "rows": self._rows,
        }
        self._call.answer(0, body=orjson.dumps(body))


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


def record_action(ports: AccessPorts, call: Call, request: RecordedAction) -> None:
    """31021: the answer waits for the entry."""
    call.answer()


ROUTES: dict[int, Handler[AccessPorts, Any]] = {
    RequestCode.LIST_AUDIT: Handler(Who.LEADER, fields(ListAuditRequest), ADMIN, list_audit),
    RequestCode.RECORD_ACTION: Handler(Who.LEADER, _read_action, ADMIN, record_action),
}
