"""Options of `dledger-archive`, which files count, and the rows of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.frames.batch import ROWS_MAX, schema_of
from pipeline.jobs.archive import COLUMNS
from pipeline.jobs.manifest import NAME, ArchiveError, ArchiveFile, Manifest, manifest_of
from pipeline.options import OptionError, shown, unknown_option, unreadable
from pipeline.places import opened, read

_NAMES = ("path", "topic", "columns", "maxFilesPerTrigger")


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """`format("dledger-archive")`.

    Attributes:
        path: ROOT of an archive, a local path or a URL.
        topics: the wanted ones; empty: all.
        columns: the wanted ones, in order.
        files_max: of one micro-batch; 0: no limit.
    """

    path: str
    topics: tuple[str, ...] = ()
    columns: tuple[str, ...] = COLUMNS
    files_max: int = 0


def archive_options(given: Mapping[str, str]) -> ArchiveOptions:
    """Raises OptionError."""
    known = {name.lower(): name for name in _NAMES}
    for key in given:
        if key.lower() not in known:
            raise unknown_option(key, _NAMES, "dledger-archive")
    values = {key.lower(): text for key, text in given.items()}
    if not values.get("path"):
        raise OptionError('dledger-archive has no path; give .load("/archive") or a URL')
    columns = _names(values.get("columns", "")) or COLUMNS
    for name in columns:
        if name not in COLUMNS:
            said = ", ".join(COLUMNS)
            raise OptionError(f"an archive has no column {name!r}; use one of {said}")
    most = values.get("maxfilespertrigger", "0")
    if not most.isdecimal() or (most == "0") == ("maxfilespertrigger" in values):
        raise OptionError(f"maxFilesPerTrigger is {most!r}; give a whole number above 0")
    path = values["path"].removeprefix("file://")
    return ArchiveOptions(path, _names(values.get("topic", "")), columns, int(most))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def manifest(options: ArchiveOptions) -> Manifest:
    """The newest one. Raises ArchiveError if there is none, OptionError if it cannot be read."""
    where = shown(options.path)
    try:
        text = read(options.path, NAME)
    except FileNotFoundError:
        raise ArchiveError(
            f"{where} is no archive; give the ROOT of dledger pipeline archive, or a copy of it"
        ) from None
    except OSError as error:
        raise unreadable(options.path, error) from None
    return manifest_of(text, f"{where}/{NAME}")


def wanted(options: ArchiveOptions, found: Manifest, first: int, end: int) -> list[ArchiveFile]:
    """Files `first` to `end` - 1 of the manifest, without other topics."""
    files = found.files[first:end]
    return [file for file in files if not options.topics or file.topic in options.topics]


def batches(options: ArchiveOptions, path: str) -> Iterator[pa.RecordBatch]:
    """Rows of the file at `path` below the archive, in its order. Raises OSError, ArrowInvalid."""
    found, root = opened(options.path)
    schema = schema_of(options.columns)
    with found.open_input_file(str(root / path)) as source:
        file = pq.ParquetFile(source, pre_buffer=True)
        for batch in file.iter_batches(ROWS_MAX, columns=list(options.columns)):
            yield pa.RecordBatch.from_arrays(
                [batch.column(field.name).cast(field.type) for field in schema], schema=schema
            )


def to_offset(found: Manifest, files: int) -> dict[str, Any]:
    """A stream's offset as Spark keeps it."""
    return {"archive": found.identity, "files": files}


def from_offset(found: Manifest, offset: Mapping[str, Any]) -> int:
    """Number of files below the offset. Raises ArchiveError for one of another archive."""
    if not offset.get("archive"):
        return 0  # there was no file yet
    if offset["archive"] != found.identity or int(offset["files"]) > len(found.files):
        raise ArchiveError(
            "the archive is another one than the query began with; start a query with a new "
            "checkpointLocation, or restore the archive"
        )
    return int(offset["files"])
