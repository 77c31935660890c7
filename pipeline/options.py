"""Options of the data sources: names, aliases, defaults, and checks of values.

Spark hands over option names in lower case, so names are case-insensitive. An option that nobody
knows is refused: a misspelt one would silently read something else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from commitlog.advice import Advised
from pipeline.frames.batch import COLUMNS, schema_of


class OptionError(Advised, ValueError):
    """An option is unknown, contradictory or impossible; the sentence names it."""

    advice = "correct the option"


def unknown_option(key: str, known: Iterable[str], what: str) -> OptionError:
    """Makes the error for an unknown option; it names the likeliest meant one, or all.

    `what`: "reading dledger", "dledger-log"…
    """
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.75)
    if close:
        return OptionError(f"unknown option {key!r} for {what}; did you mean {names[close[0]]}?")
    return OptionError(f"unknown option {key!r} for {what}; use one of {', '.join(names.values())}")


def columns_of(text: str) -> tuple[str, ...]:
    """`columns`: names parted by commas; "" for all. Raises OptionError."""
    names = tuple(name.strip() for name in text.split(",") if name.strip()) or tuple(COLUMNS)
    try:
        schema_of(names)
    except ValueError as error:
        raise OptionError(f"columns: {error}") from None
    return names


@dataclass(frozen=True, slots=True)
class LogOptions:
    """`format("dledger-log")` (docs/spec/pipeline.md 3.4).

    Attributes:
        path: folder of a stopped node, a snapshot copy, or a RocketMQ store; "" behind a URL.
        url: the same folder where it is not this machine's (`pipeline/places.py`); "" if it is.
        replica: a label written into the column `replica`; "" leaves the column out.
        start_index, end_index: bounds of the Raft index, the end excluded; -1: none.
        columns: the wanted columns, in order.
        partition_bytes: log bytes of one task at most, about; tasks are equal.
        partition_records: records of one task at most, counted by the log's index; 0: as many as
            the bytes allow.
        repair: what a broken record does: "strict" fails, "skip" goes on at the next whole one.
        internal: messages of the store's own internal topics, too.
    """

    path: Path
    replica: str = ""
    start_index: int = -1
    end_index: int = -1
    columns: tuple[str, ...] = tuple(COLUMNS)
    partition_bytes: int = 128 << 20
    partition_records: int = 0
    repair: str = "strict"
    internal: bool = False
    url: str = ""

    @property
    def where(self) -> str:
        """The place in words; the keys and options of a URL are left out."""
        return shown(self.url) or str(self.path)


def unreadable(url: str, error: OSError) -> OptionError:
    """The refusal of a place that cannot be read, instead of a library's words."""
    why = type(error).__name__ if "@" in url else error.strerror or str(error).partition(";")[0]
    return OptionError(
        f"{shown(url)} cannot be read ({why}); correct the path, or let this account read it"
    )


def shown(url: str) -> str:
    """A URL or path for people: without keys, which may hold any character, and options."""
    if "://" not in url:
        return url
    return re.sub("//.*@", "//", url.partition("?")[0])


def log_at(place: Path | str, **more: Any) -> LogOptions:
    """Options of the log at a path of this machine or a URL. `more`: fields of `LogOptions`."""
    where = str(place).removeprefix("file://")
    if "://" in where:
        return LogOptions(Path(), url=where, **more)
    return LogOptions(Path(where), **more)


#: name as documented → field
_LOG_NAMES = {
    "path": "path",
    "replica": "replica",
    "startIndex": "start_index",
    "endIndex": "end_index",
    "columns": "columns",
    "bytesPerPartition": "partition_bytes",
    "recordsPerPartition": "partition_records",
    "repair": "repair",
    "includeInternal": "internal",
}
_FIELDS = {name.lower(): field for name, field in _LOG_NAMES.items()}
_NAMES = {field: name for name, field in _LOG_NAMES.items()}
LOG_OPTION_NAMES = tuple(_LOG_NAMES)
PARTITION_BYTES_MIN = 1 << 10
assert {*_LOG_NAMES.values(), "url"} == {field.name for field in fields(LogOptions)}


def log_options(given: Mapping[str, str]) -> LogOptions:
    """Raises OptionError."""
    values: dict[str, Any] = {}
    for key, text in given.items():
        name = _FIELDS.get(key.lower())
        if name is None:
            raise unknown_option(key, LOG_OPTION_NAMES, "dledger-log")
        values[name] = text
    if not values.get("path"):
        raise OptionError('dledger-log has no path; give .load("/data/n0") or .option("path", …)')
    place = values.pop("path")
    if values.get("partition_records") == "0":
        raise OptionError("recordsPerPartition is 0; give one at least")
    for name in ("start_index", "end_index", "partition_bytes", "partition_records"):
        if name in values:
            values[name] = _whole(_NAMES[name], values[name])
    if "columns" in values:
        values["columns"] = columns_of(values["columns"])
    if "internal" in values:
        values["internal"] = _flag("includeInternal", values["internal"])
    found = log_at(place, **values)
    _check(found)
    return found


def _check(found: LogOptions) -> None:
    if found.repair not in ("strict", "skip"):
        raise OptionError(f"repair is {found.repair!r}; give strict or skip")
    if found.partition_bytes < PARTITION_BYTES_MIN:
        raise OptionError(
            f"bytesPerPartition is {found.partition_bytes}; give {PARTITION_BYTES_MIN} at least"
        )
    if 0 <= found.end_index <= found.start_index:
        raise OptionError(
            f"endIndex {found.end_index} is not above startIndex {found.start_index}, so "
            "nothing would be read; exchange them"
        )


def _whole(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"{name} is {text!r}; give a whole number") from None
    if number < 0:
        raise OptionError(f"{name} is {number}; give 0 or more")
    return number


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name} is {text!r}; give true or false")
    return text.lower() == "true"
