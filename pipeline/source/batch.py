"""`spark.read.format("dledger")`: Spark's side of a batch read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from pipeline.source.options import SourceOptions
from pipeline.source.plan import batch_ranges, tasks
from pipeline.source.pushdown import Narrowed, narrow, narrowed
from pipeline.source.reading import read
from pipeline.source.remote import remote
from pipeline.source.tasks import Task
from pipeline.source.ways import choose


class TaskPartition(InputPartition):
    """One task. Workers import its class, so Spark need not send that. `way`: see ways.py."""

    def __init__(self, number: int, task: Task, way: str) -> None:
        super().__init__(number)
        self.task, self.way = task, way

    def read(self, options: SourceOptions) -> Iterator[Any]:
        """Yield the task's rows."""
        yield from read(replace(options, fetch=self.way or options.fetch), self.task)


class TopicReader(DataSourceReader):
    """Plans once on the driver, reads in tasks."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._narrowed = Narrowed()

    def partitions(self) -> list[InputPartition]:
        """Ask the brokers for the queues' bounds, on the driver, and cut the wanted ranges into
        tasks.
        """
        place = remote(self._options)
        ranges = narrow(place, batch_ranges(place, self._options), self._narrowed)
        planned = tasks(place, self._options, ranges)
        way = choose(place, self._options, [item.queue for item in ranges])
        return [TaskPartition(number, task, way) for number, task in enumerate(planned)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one task, in a worker."""
        if isinstance(partition, TaskPartition):  # without any, Spark passes one empty partition
            yield from partition.read(self._options)


class FilteringReader(TopicReader):
    """The reader with `filterPushdown`. It is a class of its own, because a reader that has
    `pushFilters` fails unless Spark's conf allows it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the ranges to messages that can match; returns all filters, so that Spark applies
        them again to the rows.
        """
        self._narrowed = narrowed(filters, kafka=self._options.kafka_style)
        return filters
