"""Spans of messages on a node: `append` on the leader, with `replicate` and `dispatch` below it;
`apply` on a follower. Made only when `broker.tracing` names a collector.

    propose ──── a majority has it on disk ──── in its queue: consumers see it
       ├ append T ──────────────────────────────────┤   leader; a follower's: apply T
       └ replicate ────────┴ dispatch ──────────────┘

The parent is the property `traceparent` of the record itself, so delayed messages, transactions
and retries, each of which is one more record, go on with the trace of their first one. The path of
sends is not touched: what is committed is looked at.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable
from typing import Any

from cluster.broker.config import BrokerConfig
from cluster.broker.kernel.apply.derived import DerivedStore
from cluster.broker.kernel.apply.machine import BrokerMachine
from cluster.broker.kernel.write.replica_log import ReplicaLog
from cluster.tracing.context import MARK, Parent, parent_of
from commitlog.errors import StoreError
from commitlog.records.message_fast import ScannedRecord, scan_record
from dledger.core.types import Index, Term
from dledger.errors import DledgerError
from dledger.log.port import LogStore
from dledger.replica.ports import Proposal
from dledger.runtime.owned import Owned

OLD_MS = 60_000
"""A record that was stored earlier is read again after a start: its spans were told before."""
SERVICE = "dledger-broker"


class TracedLog(ReplicaLog):
    """Notes when entries were proposed."""

    traces: BrokerSpans | None = None

    @property
    def owned(self) -> Owned:
        """Counts the node's mistakes."""
        return self._owned

    def propose(self, proposal: Proposal) -> None:
        """As `ReplicaLog.propose`."""
        began = time.time_ns()
        super().propose(proposal)
        if self.traces is not None:
            self.traces.proposed(proposal.first, len(proposal.bodies), proposal.term, began)


class TracedMachine(BrokerMachine):
    """Tells the spans of each commit."""

    def __init__(self, traces: BrokerSpans, *parts: Any, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._traces = traces

    def apply(self, first: Index, last: Index) -> None:
        """As `BrokerMachine.apply`."""
        committed = time.time_ns()
        super().apply(first, last)
        self._traces.applied_safely(first, last, committed)


class BrokerSpans:
    """The spans of one node.

    Args:
        exporting: sends the spans; closed with the broker (`end_spans`).
        node_id: an attribute of each span.
        now_ms: the broker's wall clock.
    """

    def __init__(
        self,
        exporting: Any,
        node_id: str,
        log: TracedLog,
        derived: DerivedStore,
        now_ms: Callable[[], int],
    ) -> None:
        from opentelemetry import trace

        from cluster.tracing import telemetry

        self.close: Callable[[], None] = exporting.close
        self._tracer: Any = telemetry.tracer_of(exporting.provider)
        self._node_id, self._log, self._derived = node_id, log, derived
        self._now_ms, self._trace, self._telemetry = now_ms, trace, telemetry
        self._proposed: dict[Index, tuple[Term, int]] = {}
        self._has_failed = False

    def proposed(self, first: Index, count: int, term: Term, began: int) -> None:
        """This leader has proposed `count` entries from `first` on, at `began` ns."""
        if self._has_failed:
            return
        for index in range(first, first + count):
            self._proposed[Index(index)] = term, began

    def applied_safely(self, first: Index, last: Index, committed: int) -> None:
        """As `applied`; the first mistake is counted and logged, and ends this node's spans.

        Called while the replica applies: a mistake that left it would stop the replica, which has
        applied the entries and owes tracing nothing.
        """
        if self._has_failed:
            return
        try:
            self.applied(first, last, committed)
        except Exception:
            self._has_failed = True
            self._proposed.clear()
            self._log.owned.spared("spans; this node makes no more until it starts again")

    def applied(self, first: Index, last: Index, committed: int) -> None:
        """Entries are committed, at `committed` ns; spans end when they are dispatched."""
        earliest = self._now_ms() - OLD_MS
        for index in range(first, last + 1):
            proposed = self._proposed.pop(Index(index), None)
            found = self._record(Index(index))
            if found is not None and found[0].store_timestamp_ms >= earliest:
                self._begin(Index(index), *found, self._began(Index(index), proposed), committed)
        while self._proposed and (oldest := next(iter(self._proposed))) <= last:
            del self._proposed[oldest]  # another leader has cut it off

    def _began(self, index: Index, proposed: tuple[Term, int] | None) -> int | None:
        """When this node proposed the entry; None for another leader's, in place of its own."""
        if proposed is None or self._log.store.id_of(index).term != proposed[0]:
            return None
        return proposed[1]

    def _record(self, index: Index) -> tuple[ScannedRecord, Parent] | None:
        """The record of an entry and the context in it; None without a sampled one."""
        try:
            body = bytes(self._log.store.entry(index).body)
            if MARK not in body:
                return None
            record = scan_record(body)
        except (StoreError, IndexError):
            return None  # damaged, or gone: the log has its own way with it
        parent = parent_of(record.properties)
        return (record, parent) if parent is not None and parent.is_sampled else None

    def _begin(
        self,
        index: Index,
        record: ScannedRecord,
        parent: Parent,
        began: int | None,
        committed: int,
    ) -> None:
        topic = record.topic.decode("utf-8", "replace")
        telemetry, kinds = self._telemetry, self._trace.SpanKind
        attributes = {
            telemetry.SYSTEM: "rocketmq",
            telemetry.TOPIC: topic,
            telemetry.QUEUE_OFFSET: record.queue_offset,
            "dledger.index": index,
            "dledger.node": self._node_id,
        }
        leads = began is not None
        whole = self._tracer.start_span(
            f"append {topic}" if leads else f"apply {topic}",
            context=telemetry.below(parent),
            kind=kinds.SERVER if leads else kinds.INTERNAL,
            attributes=attributes,
            start_time=began or committed,
        )
        inside = self._trace.set_span_in_context(whole)
        if leads:
            replicate = self._tracer.start_span("replicate", context=inside, start_time=began)
            replicate.end(committed)
        dispatch = self._tracer.start_span("dispatch", context=inside, start_time=committed)

        def dispatched(error: DledgerError | None) -> None:
            now = time.time_ns()
            for span in (dispatch, whole):
                if error is not None:
                    status = self._trace.Status(self._trace.StatusCode.ERROR, str(error))
                    span.set_status(status)
                span.end(now)

        self._derived.when_dispatched(index, dispatched)


def log_of(config: BrokerConfig, store: LogStore, owned: Owned) -> ReplicaLog:
    """The broker's log, which notes proposals when tracing is on."""
    return TracedLog(store, owned) if config.tracing else ReplicaLog(store, owned)


def machine_of(
    config: BrokerConfig, log: ReplicaLog, derived: DerivedStore, now_ms: Callable[[], int]
) -> Callable[..., BrokerMachine]:
    """The maker of the replica's machine: of one with spans when tracing is on.

    Raises MissingExtra without the extra otel.
    """
    if not isinstance(log, TracedLog):
        return BrokerMachine
    from cluster.tracing import telemetry

    node_id = config.node_id
    exporting = telemetry.exporting(config.tracing, config.tracing_ratio, SERVICE, node_id)
    log.traces = BrokerSpans(exporting, node_id, log, derived, now_ms)
    return functools.partial(TracedMachine, log.traces)


async def end_spans(log: ReplicaLog) -> None:
    """Send the spans that are left and end their exporter; the event loop goes on meanwhile."""
    if isinstance(log, TracedLog) and log.traces is not None:
        await asyncio.to_thread(log.traces.close)
