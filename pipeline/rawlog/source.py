"""`spark.read.format("dledger-log")`: raw files of a store as a DataFrame.

Source: docs/spec/pipeline.md 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.frames.batch import schema_of
from pipeline.given_schema import check_schema
from pipeline.options import LogOptions, log_options
from pipeline.rawlog.plan import share_out
from pipeline.rawlog.read import REPLICA, batches
from pipeline.rawlog.shares import Piece


class LogPartition(InputPartition):
    """One task's share; importable, so that it travels to workers by reference."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(pieces[0].path.name)
        self.pieces = pieces


class LogReader(DataSourceReader):
    """Plans once, reads in tasks."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Share out the pieces of the log, on the driver."""
        return [LogPartition(share) for share in share_out(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of one partition, in a worker."""
        if not isinstance(partition, LogPartition):
            return  # Spark makes one empty partition of a log without pieces
        for piece in partition.pieces:
            yield from batches(self._options, piece)


class LogSource(DataSource):
    """Registered by `pipeline.register(spark)`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "dledger-log"

    def schema(self) -> StructType:
        """The columns that the options choose. Raises OptionError."""
        options = log_options(self.options)
        found = schema_of(options.columns)
        if options.replica:
            found = pa.schema([*found, REPLICA])
        made = from_arrow_schema(found)
        assert isinstance(made, StructType)
        return made

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch. Raises OptionError."""
        check_schema(schema, self.schema())
        return LogReader(log_options(self.options))
