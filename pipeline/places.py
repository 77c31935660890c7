"""Reads files behind a URL with pyarrow: S3 and compatible stores, Hadoop, Google Cloud Storage.

    s3://bucket/n0                                         keys from the environment, as AWS's tools
    s3://bucket/n0?endpoint_override=127.0.0.1:9000&scheme=http      another store with S3's API
    s3://bucket/n0?endpoint=http://127.0.0.1:9000               the same, as `dledger backup` has it
    s3a://…                                                Hadoop's name for s3://
    hdfs://namenode:8020/n0, viewfs://…                    needs libhdfs and Hadoop's CLASSPATH
    gs://bucket/n0 · file:///data/n0 · /data/n0

Each process that reads opens its own connection, so executors need the same access as the driver.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

import pyarrow.fs as arrow

from commitlog.errors import StoreDamaged
from commitlog.files.system import OS_FILES, FileSystem
from pipeline.options import LogOptions, OptionError, shown

#: Bytes of one request; 8 MiB keep a connection busy and a task small.
REQUEST_BYTES = 8 << 20


@lru_cache(maxsize=64)
def opened(text: str) -> tuple[Any, Path]:
    """(pyarrow's file system, path in it) of a URL or a local path.

    Raises OptionError for a URL of a kind that pyarrow cannot open here.
    """
    if "://" not in text:
        return arrow.LocalFileSystem(), Path(text)
    for alias in ("s3a://", "s3n://"):
        if text.startswith(alias):
            text = "s3://" + text.removeprefix(alias)
    try:
        found, path = arrow.FileSystem.from_uri(_for_arrow(text))
    except (ValueError, OSError, NotImplementedError) as error:
        # pyarrow's text repeats the URL, which may hold a secret if it has an @ or a query.
        why = type(error).__name__ if "@" in text or "?" in text else str(error)
        raise OptionError(f"{shown(text)} cannot be opened ({why}); correct the URL") from None
    return found, Path(path)


def _for_arrow(text: str) -> str:
    """The URL with the option `endpoint` of backups replaced by pyarrow's two options."""
    start, _, query = text.partition("?")
    options = dict(parse_qsl(query))
    scheme, _, server = options.pop("endpoint", "").partition("://")
    if not server:
        return text
    return f"{start}?{urlencode({**options, 'endpoint_override': server, 'scheme': scheme})}"


def files_of(options: LogOptions) -> tuple[FileSystem, Path]:
    """The file system that holds a log, this machine's or the one of its URL, and the path in it.

    Raises OptionError.
    """
    if not options.url:
        return OS_FILES, options.path
    found, path = opened(options.url)
    return store_files(found), path


def read(text: str, name: str) -> bytes:
    """One file below a URL or local path, whole. Raises FileNotFoundError, OSError."""
    found, path = opened(text)
    with found.open_input_stream(str(path / name), compression=None) as stream:
        return bytes(stream.read())


class PlaceFiles:
    """The reading half of the store's `FileSystem` port, over a file system of pyarrow."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def exists(self, path: Path) -> bool:
        """Is it a file or a folder?"""
        return bool(self._info(path).type != arrow.FileType.NotFound)

    def is_dir(self, path: Path) -> bool:
        """Is it a folder? In an object store: is there a key below it?"""
        return bool(self._info(path).type == arrow.FileType.Directory)

    def file_size(self, path: Path) -> int:
        """Bytes of the file."""
        return int(self._info(path).size)

    def list(self, path: Path) -> list[str]:
        """Sorted names in a folder; empty when it is missing."""
        selector = arrow.FileSelector(str(path), allow_not_found=True)
        return sorted(info.base_name for info in self._found.get_file_info(selector))

    def read(self, path: Path) -> bytes:
        """The whole file. Raises FileNotFoundError, OSError."""
        with self._found.open_input_stream(str(path), compression=None) as stream:
            return bytes(stream.read())

    def open(self, path: Path, *, writable: bool = True) -> PlaceFile:
        """The file, of which no byte is fetched before `pread`; `writable` must be False."""
        if writable:
            raise PermissionError(f"{path} is behind a URL, which is only read; copy it first")
        return PlaceFile(path, self.file_size(path), self._found)

    def _info(self, path: Path) -> Any:
        return self._found.get_file_info(str(path))


@dataclass(frozen=True, slots=True)
class PlaceFile:
    """A file's path and size; `pread` fetches the few bytes that the planner needs."""

    path: Path
    size: int
    found: Any

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes. Raises OSError."""
        with self.found.open_input_file(str(self.path)) as file:
            return bytes(file.read_at(size, position))

    def close(self) -> None:
        """Has no effect: no connection is kept."""


def store_files(found: Any) -> FileSystem:
    """`PlaceFiles` as the type that the store's reader takes; the reader only reads."""
    return cast(FileSystem, PlaceFiles(found))


@contextmanager
def mapped(text: str, path: Path, size: int, begin: int, end: int) -> Iterator[memoryview]:
    """The first `size` bytes of a file as a mapping; of a URL only `begin` to `end` are fetched.

    Fetched bytes go into an unnamed file of the machine's temporary folder; the rest of it is a
    hole and reads as zeros.

    Raises StoreDamaged for a file that is shorter than `size`, OSError.
    """
    if not text:
        with path.open("rb") as file:
            found_size = os.fstat(file.fileno()).st_size
            if found_size < size:
                raise _cut_off(path, found_size, size)
            yield memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        return
    found, _ = opened(text)
    with tempfile.TemporaryFile() as copy:
        os.ftruncate(copy.fileno(), size)
        with found.open_input_file(str(path)) as source:
            for at in range(begin, end, REQUEST_BYTES):
                part = source.read_at(min(REQUEST_BYTES, end - at), at)
                if len(part) < min(REQUEST_BYTES, end - at):
                    raise _cut_off(path, at + len(part), size)
                os.pwrite(copy.fileno(), part, at)
        yield memoryview(mmap.mmap(copy.fileno(), size, access=mmap.ACCESS_READ))


def _cut_off(path: Path, found: int, wanted: int) -> StoreDamaged:
    return StoreDamaged(
        f"the file ends after {found} of {wanted} bytes; it was cut off, or changed while it was "
        "read",
        path=str(path),
        position=found,
    )
