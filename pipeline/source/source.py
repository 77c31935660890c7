"""`format("dledger")`: topics in (pipeline.source) and topics out (pipeline.sink).

Spark starts a Python for every step of a query, and each imports this: readers and writers, which
need the client, are imported by the steps that make them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipeline.source.options import source_options

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
        return "dledger"

    def schema(self) -> StructType:
        # Spark does not say here whether it will read a batch or a stream; a stream has no end.
        options = source_options(_without_ends(self.options), streaming=True)
        made = from_arrow_schema(options.schema())
        assert isinstance(made, StructType)
        return made

    def reader(self, schema: StructType) -> DataSourceReader:
        from pipeline.source.batch import FilteringReader, TopicReader

        options = source_options(self.options, streaming=False)
        return FilteringReader(options) if options.filter_pushdown else TopicReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pipeline.source.stream import TopicStreamReader

        return TopicStreamReader(source_options(self.options, streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pipeline.sink.writer import batch_writer

        return batch_writer(self.options, schema.names, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from pipeline.sink.writer import stream_writer

        return stream_writer(self.options, schema.names, overwrite)


def _without_ends(given: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in given.items() if not key.lower().startswith("ending")}
