"""`format("dledger-archive")`: Spark's side of an archive. See README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pipeline.archives.reading import (
    ArchiveOptions,
    archive_options,
    batches,
    from_offset,
    manifest,
    to_offset,
    wanted,
)
from pipeline.frames.batch import schema_of
from pipeline.given_schema import check_schema


class ArchivePartition(InputPartition):
    """One file; importable, so that it travels to workers by reference."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def _read(options: ArchiveOptions, partition: InputPartition) -> Iterator[Any]:
    if isinstance(partition, ArchivePartition):  # Spark makes an empty one where there is no file
        yield from batches(options, partition.path)


def _partitions(options: ArchiveOptions, first: int, end: int | None) -> list[InputPartition]:
    found = manifest(options)
    last = len(found.files) if end is None else end
    return [ArchivePartition(file.path) for file in wanted(options, found, first, last)]


class ArchiveReader(DataSourceReader):
    """The archive as it is when the query is planned."""

    def __init__(self, options: ArchiveOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One for each file of the newest manifest. Raises ArchiveError."""
        return _partitions(self._options, 0, None)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Rows of one file, in its order."""
        yield from _read(self._options, partition)


class ArchiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The archive as it grows; offsets are numbers of files."""

    def __init__(self, options: ArchiveOptions) -> None:
        self._options = options
        self._target: int | None = None  # of the trigger availableNow

    def initialOffset(self) -> dict[str, Any]:
        """The archive's beginning. Raises ArchiveError."""
        return to_offset(manifest(self._options), 0)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxFilesPerTrigger`, if it is given."""
        most = self._options.files_max
        return ReadMaxFiles(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends at the files of now."""
        self._target = len(manifest(self._options).files)

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """End of the next micro-batch. Raises ArchiveError for another archive."""
        found = manifest(self._options)
        first = from_offset(found, start)
        end = len(found.files) if self._target is None else min(self._target, len(found.files))
        if isinstance(limit, ReadMaxFiles):
            end = min(end, first + limit.max_files)
        return to_offset(found, max(first, end))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """One for each file between two offsets, the same ones each time."""
        found = manifest(self._options)
        return _partitions(self._options, from_offset(found, start), from_offset(found, end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Rows of one file, in its order."""
        yield from _read(self._options, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Has no effect: an archive keeps its files."""

    def stop(self) -> None:
        """Has no effect: connections belong to the process."""


class ArchiveSource(DataSource):
    """Registered by `pipeline.register(spark)`, or found through `pyspark_dledger_archive`."""

    @classmethod
    def name(cls) -> str:
        """`dledger-archive`."""
        return "dledger-archive"

    def schema(self) -> StructType:
        """Types of the wanted columns. Raises OptionError."""
        made = from_arrow_schema(schema_of(archive_options(self.options).columns))
        assert isinstance(made, StructType)
        return made

    def reader(self, schema: StructType) -> DataSourceReader:
        """For a batch. Raises OptionError."""
        check_schema(schema, self.schema())
        return ArchiveReader(archive_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For a stream. Raises OptionError."""
        check_schema(schema, self.schema())
        return ArchiveStreamReader(archive_options(self.options))
