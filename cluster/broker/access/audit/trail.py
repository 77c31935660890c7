"""Writes the audit log: an entry in front of each change that an administrator asks for.

    audited request ─► its function, as is ─┬► writes a change   both: one batch
                                            ├► `call.begun`      entry; when committed, the step
                                            ├► answers at once   entry; committed, the answer
                                            └► refuses           entry; nothing waits for it

An answer of code 0 is given when the entry is committed, so an acknowledged change has one on every
leader to come. A leader that dies between the entry and its change leaves an entry whose change was
never acknowledged. Refusals come at a bounded rate: strangers cannot fill the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cluster.broker.kernel.events.leadership import Leadership
from cluster.broker.kernel.net.requests import BoundHandler, Call
from cluster.broker.kernel.write.state_writer import StateWriter
from cluster.core.access.signature import ACCESS_KEY
from cluster.core.audit.actions import ACTIONS, Action, action_of, attempted
from cluster.core.audit.entry import BEGUN, REFUSED, AuditEntry, entry_record
from cluster.core.audit.parameters import parameters_of
from cluster.core.internal_topics import StateRecord
from cluster.core.rate import Rate
from cluster.errors import ClusterError, Unauthorized
from cluster.protocol.audit_headers import BY, VIA
from cluster.protocol.frames import EMPTY

REFUSALS_PER_SECOND = 0.1
REFUSALS_AT_ONCE = 30
"""Entries of refusals that one node writes: 8,640 a day, 3 MB of ordinary requests, and some 170 MB
of such as fill every field. What is above is counted."""

_log = logging.getLogger(__name__)


class AuditTrail:
    """One per broker; it writes while the node leads."""

    def __init__(
        self, writer: StateWriter, leadership: Leadership, *, node: str, now: Callable[[], float]
    ) -> None:
        self._writer, self._leadership = writer, leadership
        self._node, self._now = node, now
        self._refusals = Rate(REFUSALS_PER_SECOND, REFUSALS_AT_ONCE)
        self.uncounted = 0  # refusals without an entry since the last one that has one
        self.in_front = writer.in_front

    def audited(self, handlers: Mapping[int, BoundHandler[Any]]) -> dict[int, BoundHandler[Any]]:
        """The same handlers; those that change something write their entries."""
        return {
            code: self._audited(handler) if code in ACTIONS else handler
            for code, handler in handlers.items()
        }

    def _audited(self, handler: BoundHandler[Any]) -> BoundHandler[Any]:
        def function(call: Call, request: Any) -> None:
            action = action_of(call.frame.code, request)
            if action is None:
                handler.function(call, request)
                return
            audited = AuditedCall(*call)
            audited.begin(self, self._entry(call, action, parameters_of(request)))
            audited.guarded(lambda: handler.function(audited, request))

        return handler._replace(function=function)

    def denied(self, call: Call, error: Unauthorized) -> None:
        """A request was refused for its account, signature or rights."""
        if call.frame.code not in ACTIONS:
            return
        given = dict(call.frame.ext)
        claimed = given.pop(ACCESS_KEY, "")
        entry = self._entry(call, attempted(call.frame.code), parameters_of(given))
        self.refused(replace(entry, account=entry.account or claimed), error)

    def refused(self, entry: AuditEntry, error: Exception) -> None:
        """Keep that it was refused: in the log where this node leads, else in its own log file.

        What has begun had the right to, and the log says so: it is told in any case.
        """
        if entry.outcome != BEGUN and not self._refusals.take(self._now()):
            self.uncounted += 1
            return
        why = str(error) + (f" (and {self.uncounted} refusals before)" if self.uncounted else "")
        self.uncounted = 0
        entry = replace(entry, outcome=REFUSED, why=why)
        _log.warning(
            "audit: refused %s of %s from %s: %s",
            entry.verb,
            entry.account or "nobody known",
            entry.address,
            why,
        )
        if self._leadership.leads:
            try:
                self._writer.write_records([entry_record(entry)], _not_waited_for)
            except ClusterError as full:
                _log.warning("audit: that refusal is in this file alone: %s", full)

    def write(self, entry: AuditEntry, done: Callable[[Exception | None], None]) -> None:
        """Log one entry; `done(None)` when it is committed. Raises QueueFull."""
        self._writer.write_records([entry_record(entry)], done)

    def write_at_once(self, entry: AuditEntry) -> None:
        """Propose one entry; where the log refuses it, this node's own log file has it alone."""
        record = [entry_record(entry)]

        def written(error: Exception | None) -> None:
            if error is not None:
                _log.warning(
                    "audit: %s of %s by %s from %s is in this file alone: %s",
                    entry.verb,
                    entry.target,
                    entry.account or "nobody known",
                    entry.address,
                    error,
                )

        try:
            self._writer.write_at_once(record, written)
        except ClusterError as full:
            written(full)

    def _entry(self, call: Call, action: Action, parameters: Mapping[str, Any]) -> AuditEntry:
        frame = call.frame
        ext = frame.ext or EMPTY
        return AuditEntry(
            verb=action.verb,
            target=action.target,
            account=call.caller.key,  # never one that is named without a signature
            address=call.client.address,
            client=f"{frame.language} {frame.version}",
            via=ext.get(VIA, ""),
            by=ext.get(BY, ""),
            node=self._node,
            code=int(frame.code),
            command=action.command,
            parameters=parameters,
        )


class AuditedCall(Call):
    """A request; its answer waits for its entry. `begin` is called before everything else."""

    def begin(self, trail: AuditTrail, entry: AuditEntry) -> None:
        """Before the request is served."""
        self.trail, self.entry = trail, entry
        self.is_kept = False

    def guarded(self, step: Callable[[], object]) -> None:
        """A change that the step writes gets the entry in front."""

        def within() -> None:
            with self.trail.in_front.serving(self._taken):
                step()

        super().guarded(within)

    def _taken(self) -> StateRecord | None:
        if self.is_kept:
            return None
        self.is_kept = True
        return entry_record(self.entry)

    def begun(self, step: Callable[[], object]) -> None:
        """The entry is committed before the first such step runs; later ones need no second."""
        if self.entry.outcome == BEGUN:
            self.guarded(step)
            return
        self.entry, self.is_kept = replace(self.entry, outcome=BEGUN), True

        def written(error: Exception | None) -> None:
            if error is not None:
                super(AuditedCall, self).refuse(error)
            else:
                self.guarded(step)

        self.trail.write(self.entry, written)

    def begun_anyway(self, step: Callable[[], object]) -> None:
        """The entry is in front of the step's, which a full disk does not hold up (`begun`).

        For a step that is committed behind it, or that hands the lead to a node that has all that
        was proposed before: so the answer needs no wait.
        """
        self.entry, self.is_kept = replace(self.entry, outcome=BEGUN), True
        self.trail.write_at_once(self.entry)
        self.guarded(step)

    def answer(
        self,
        code: int = 0,
        ext: Mapping[str, str] = EMPTY,
        body: bytes = b"",
        remark: str | None = None,
    ) -> None:
        """With code 0 when the entry is in the log."""
        if code != 0 or self.is_kept:
            super().answer(code, ext, body, remark)
            return
        self.is_kept = True

        def written(error: Exception | None) -> None:
            if error is not None:
                super(AuditedCall, self).refuse(error)
            else:
                super(AuditedCall, self).answer(code, ext, body, remark)

        try:
            self.trail.write(self.entry, written)
        except ClusterError as full:
            super().refuse(full)

    def refuse(self, error: Exception) -> None:
        """With an entry, unless the client is to ask again and it has not begun."""
        told = self.router.to_error(error)
        if self.entry.outcome == BEGUN or not told.retriable:
            self.trail.refused(self.entry, told)
        super().answer_error(error)


def _not_waited_for(error: Exception | None) -> None:
    """A refusal's entry that the log does not take is in this node's own log file."""
