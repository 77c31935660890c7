"""Writes a server's log: one line for one event, of bounded length, in files that rotate.

Everything goes through the one handler made here, so no line can go around it:

* control characters and line breaks of foreign text are escaped, so nobody forges a line;
* a line longer than LINE_CHARS_MAX is cut;
* one sentence of the code that is logged more than SAME_TOLD_FIRST times without a quiet time
  between is counted, and told ever more seldom (`dledger/runtime/complaints.py`).

With `log.file` ($DLEDGER_LOG_FILE) set, the process's whole output goes to that file; the launcher
sets it. When it is larger than `log.bytes` ($DLEDGER_LOG_BYTES), log.txt becomes log.1.txt, that
one log.2.txt and so on; `log.files` ($DLEDGER_LOG_FILES) are kept altogether. Without a file,
output stays where it is, and what started the process rotates it (systemd and containers do).

A node's settings say so (`LogConfig`); before they are read, and in a process without such
settings, only the environment counts.

With `log.format` ($DLEDGER_LOG_FORMAT) json each event is an object on a line of its own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from cluster.settings.node import LogConfig, LogFormat
from cluster.settings.sources import read
from dledger.runtime.complaints import Tally

LOG_FILE = "DLEDGER_LOG_FILE"
LINE_CHARS_MAX = 2000
SAME_TOLD_FIRST = 1000
_VARIABLES = LOG_FILE, "DLEDGER_LOG_BYTES", "DLEDGER_LOG_FILES", "DLEDGER_LOG_FORMAT"

#: Also the line breaks of Unicode, and what turns the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """`text` without control characters, cut to LINE_CHARS_MAX characters and a mark."""
    cut = text[:LINE_CHARS_MAX]
    safe = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)
    if len(safe) > LINE_CHARS_MAX or len(text) > LINE_CHARS_MAX:
        return f"{safe[:LINE_CHARS_MAX]}… ({len(text)} characters)"
    return safe


class OneLine(logging.Formatter):
    """Writes each message as one line; a traceback keeps its lines, its exception is one line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line; control characters of the message are escaped, and a long one is cut."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """The traceback: lines of its stack as they are, type and text of each error on one."""
        error = ei[1] if isinstance(ei, tuple) else None
        if error is None:
            return ""
        pieces = []
        for piece in traceback.format_exception(error):
            text = piece.rstrip("\n")
            is_frames = piece.startswith((" ", "\n", "Traceback (most recent call last):"))
            pieces.append(text if is_frames else one_line(text))
        return "\n".join(pieces)


class JsonLine(OneLine):
    """Writes each event as one JSON object on one line; a traceback is the text of `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The object's text; `time` is UTC with milliseconds."""
        written = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}"
            f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "name": record.name,
            "message": one_line(record.getMessage()),
        }
        if record.exc_info:
            written["error"] = self.formatException(record.exc_info)
        return json.dumps(written, ensure_ascii=False)


FORMATTERS: Mapping[LogFormat, Callable[[], logging.Formatter]] = {
    LogFormat.TEXT: lambda: OneLine(
        "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S"
    ),
    LogFormat.JSON: JsonLine,
}


class SeldomSame(logging.Filter):
    """Drops repeated lines: the last defence against a line that a client can cause without end."""

    def __init__(self) -> None:
        super().__init__()
        self._tally = Tally(time.monotonic, told_first=SAME_TOLD_FIRST, kinds_max=1000)

    def filter(self, record: logging.LogRecord) -> bool:
        """Passes SAME_TOLD_FIRST equal records, then only at counts that are powers of two."""
        return self._tally.due(f"{record.name} {record.levelno} {str(record.msg)[:200]}") > 0


def numbered(path: Path, number: int) -> Path:
    """The file that `path` has become after so many rotations."""
    return path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path


class OutputFile:
    """The file that standard output and error of this process go to, and those before it."""

    def __init__(self, path: Path, bytes_max: int, files_count: int) -> None:
        self.path = path
        self.limit(bytes_max, files_count)
        if not self._is_output():
            self._open()

    def limit(self, bytes_max: int, files_count: int) -> None:
        """From now on."""
        self._bytes_max, self._files_count = bytes_max, files_count
        self._try_at = bytes_max

    def rotate_if_large(self) -> None:
        """After a line. When files cannot be renamed, the log goes on in the same one."""
        size = os.fstat(2).st_size
        if size < self._try_at:
            return
        self._try_at = size + self._bytes_max
        with contextlib.suppress(OSError):
            for number in reversed(range(self._files_count - 1)):
                with contextlib.suppress(FileNotFoundError):
                    self._numbered(number).replace(self._numbered(number + 1))
            if self._files_count == 1:
                self.path.unlink(missing_ok=True)
            self._open()
            self._try_at = self._bytes_max

    def _numbered(self, number: int) -> Path:
        return numbered(self.path, number)

    def _is_output(self) -> bool:
        try:
            there, ours = self.path.stat(), os.fstat(2)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _open(self) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            for output in (1, 2):
                os.dup2(descriptor, output)
        finally:
            os.close(descriptor)


class LogHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to `stream`, and lets the file behind it rotate."""

    def __init__(self, output: OutputFile | None, stream: TextIO) -> None:
        super().__init__(stream)
        self.output = output
        self.addFilter(SeldomSame())
        self.setFormatter(FORMATTERS[LogFormat.TEXT]())

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record, then rotates the output file if it has become too large."""
        super().emit(record)
        if self.output is not None:
            self.output.rotate_if_large()

    def use(self, settings: LogConfig) -> None:
        """The settings are read now. Raises OSError for a file that cannot be opened."""
        self.setFormatter(FORMATTERS[settings.format]())
        if settings.file is None:
            self.output = None
        elif self.output is None or self.output.path != settings.file:
            self.output = OutputFile(settings.file, settings.bytes, settings.files)
        else:
            self.output.limit(settings.bytes, settings.files)


def set_up_log(stream: TextIO | None = None) -> LogHandler:
    """Let this process log as the module says, to `stream` or standard error; for a server.

    Raises SettingsError for variables that make no sense.
    """
    handler = LogHandler(None, stream or sys.stderr)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    environment = {key: os.environ[key] for key in _VARIABLES if key in os.environ}
    given = read({"log": LogConfig}, environment=environment)
    handler.use(given.build("log", LogConfig))
    return handler


def write_last_words(text: str) -> None:
    """To standard error: why this process ends, in the format of its log."""
    record = logging.makeLogRecord(
        {"name": "cluster.local", "levelno": logging.CRITICAL, "levelname": "CRITICAL", "msg": text}
    )
    formatters = [
        handler.formatter
        for handler in logging.getLogger().handlers
        if isinstance(handler, LogHandler) and isinstance(handler.formatter, JsonLine)
    ]
    sys.stderr.write(f"{formatters[0].format(record) if formatters else text}\n")


def message_of(line: str) -> str:
    """The message of a line that JsonLine wrote; any other line as it is."""
    try:
        found = json.loads(line)
    except ValueError:
        return line
    return str(found["message"]) if isinstance(found, dict) and "message" in found else line


def use_log(settings: LogConfig) -> None:
    """Apply a node's settings to the log that `set_up_log` has set up."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogHandler):
            handler.use(settings)
