"""Columns that a query reads from our sources and never uses: a warning names them.

    watch_columns(spark)         from now on, for each batch and each streaming query, once
    unused_columns(frame)        the same of one frame, before it runs

Python sources of this Spark cannot be told by `select()` which columns to read; the option
`columns` tells them. Spark's own optimizer knows which are used: this reads its plan.

    relation   topic, queue, value, …    all of these are read
    Project    value                     what is above it needs this
    Aggregate  count(1)                  what the plan gives
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
SOURCES = ("dledger", "dledger-log", "dledger-archive")
#: Nodes that use what their expressions name and what the nodes above them need, no more. Of all
#: others, as of a union, every column of a child counts as used.
_PASSING = frozenset(
    {"Project", "Filter", "Aggregate", "Join", "Sort", "Window", "Generate", "Expand", "Sample"}
    | {"GlobalLimit", "LocalLimit", "Offset", "EventTimeWatermark", "SubqueryAlias"}
    | {"Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint"}
    | {"MapInPandas", "MapInArrow", "ArrowEvalPython", "BatchEvalPython"}
)


@dataclass(frozen=True, slots=True)
class Unused:
    """The columns of one read that are never used, those that are used, and the source's name."""

    source: str
    unused: tuple[str, ...]
    used: tuple[str, ...]

    def __str__(self) -> str:
        names = ",".join(self.used) or "offset"
        return (
            f"{self.source} reads columns that the query never uses: {', '.join(self.unused)}; "
            f'select() cannot spare them, .option("columns", "{names}") does'
        )


def unused_columns(frame: DataFrame) -> list[Unused]:
    """Finds the reads of a batch or streaming frame that give unused columns, a row for each.

    It plans the query and runs nothing. Needs a session in this process: Spark Connect has no plan.
    """
    session: Any = frame.sparkSession
    analyzed = frame._jdf.queryExecution().analyzed()
    return list(_unused(session._jsparkSession.sessionState().optimizer().execute(analyzed)))


def watch_columns(spark: SparkSession) -> None:
    """Logs a warning for each query of the session that reads columns in vain, once for each such
    set of columns. Needs a session in this process."""
    from pyspark.java_gateway import ensure_callback_server_started

    told = _Told()
    ensure_callback_server_started(spark.sparkContext._gateway)
    manager = spark._jsparkSession.listenerManager()
    manager.register(_Batches(told))
    spark.streams.addListener(_Streams(spark, told))


class _Told:
    """Warns of each thing once: queries are run again and again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: set[str] = set()

    def tell(self, found: Iterator[Unused]) -> None:
        for text in map(str, found):
            with self._lock:
                is_new = text not in self._texts
                self._texts.add(text)
            if is_new:
                _log.warning("%s", text)


class _Batches:
    """Spark's QueryExecutionListener: called behind each action of a batch."""

    def __init__(self, told: _Told) -> None:
        self._told = told

    def onSuccess(self, name: str, execution: Any, nanoseconds: int) -> None:
        self._told.tell(_unused(execution.optimizedPlan()))

    def onFailure(self, name: str, execution: Any, error: Any) -> None:
        """Has no effect: users must see the error."""

    class Java:
        implements: Sequence[str] = ["org.apache.spark.sql.util.QueryExecutionListener"]


class _Streams(StreamingQueryListener):  # type: ignore[misc]  # pyspark has no types here
    """Looks at a streaming query's plan behind its first micro-batch."""

    def __init__(self, spark: SparkSession, told: _Told) -> None:
        self._spark, self._told = spark, told
        self._seen: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:
        """Has no effect: there is no plan yet."""

    def onQueryProgress(self, event: Any) -> None:
        run = str(event.progress.runId)
        query: Any = self._spark.streams.get(str(event.progress.id))
        if run in self._seen or query is None:
            return
        execution = query._jsq.streamingQuery().lastExecution()
        if execution is not None:
            self._seen.add(run)
            self._told.tell(_unused(execution.optimizedPlan()))

    def onQueryIdle(self, event: Any) -> None:
        """Has no effect."""

    def onQueryTerminated(self, event: Any) -> None:
        self._seen.discard(str(event.runId))


def _unused(plan: Any) -> Iterator[Unused]:
    """Top down: which columns of each node are needed by those above it."""
    waiting: list[tuple[Any, set[int]]] = [(plan, _ids(plan.output()))]
    while waiting:
        node, needed = waiting.pop()
        children = node.children()
        if not children.size():
            source = _source(node)
            if source in SOURCES:
                yield from _of_relation(source, node, needed)
            continue
        passes = node.nodeName() in _PASSING
        if passes:
            needed = needed | _ids(node.references().toSeq())
        for number in range(children.size()):
            child = children.apply(number)
            mine = _ids(child.output())
            waiting.append((child, mine & needed if passes else mine))


def _of_relation(source: str, node: Any, needed: set[int]) -> Iterator[Unused]:
    columns = [(column.exprId().id(), column.name()) for column in _items(node.output())]
    unused = tuple(name for number, name in columns if number not in needed)
    if unused:
        yield Unused(source, unused, tuple(name for number, name in columns if number in needed))


def _source(node: Any) -> str:
    """The name of a read's source, "" for other nodes."""
    kind = node.nodeName()
    if kind.startswith(("StreamingDataSourceV2", "DataSourceV2")):
        return str(node.relation().table().name())
    if kind == "StreamingRelationV2":
        return str(node.sourceName())
    return ""


def _ids(attributes: Any) -> set[int]:
    return {attribute.exprId().id() for attribute in _items(attributes)}


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))
