"""`format("dledger")`: topics in (pipeline.source) and topics out (pipeline.sink).

Spark starts a Python for every step of a query, and each imports this: readers and writers, which
need the client, are imported by the steps that make them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.given_schema import check_schema, types_of
from pipeline.source.options import SourceOptions, source_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )


class DledgerSource(DataSource):
    """Registered by `pipeline.register(spark)`, or found through `pyspark_dledger`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "dledger"

    def schema(self) -> StructType:
        """The columns that the options choose. Raises OptionError."""
        # Spark does not say here whether it will read a batch or a stream; a stream has no end.
        return _spark_schema(source_options(_without_ends(self.options), streaming=True))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch. Raises OptionError."""
        from pipeline.source.batch import FilteringReader, TopicReader

        options = source_options(self.options, streaming=False)
        check_schema(schema, _spark_schema(options))
        return FilteringReader(options) if options.filter_pushdown else TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of a stream. Raises OptionError."""
        from pipeline.source.stream import TopicStreamReader

        options = source_options(self.options, streaming=True)
        check_schema(schema, _spark_schema(options))
        return TopicStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer of a batch into a topic. Raises OptionError."""
        from pipeline.sink.writer import batch_writer

        return batch_writer(self.options, types_of(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """The writer of a stream into a topic. Raises OptionError."""
        from pipeline.sink.writer import stream_writer

        return stream_writer(self.options, types_of(schema), overwrite)


def _spark_schema(options: SourceOptions) -> StructType:
    made = from_arrow_schema(options.schema())
    assert isinstance(made, StructType)
    return made


def _without_ends(given: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in given.items() if not key.lower().startswith("ending")}
