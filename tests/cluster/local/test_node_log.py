"""A server's log: nobody forges a line, makes it long, or fills the disk with it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local import processes
from cluster.local.node_log import (
    LINE_CHARS_MAX,
    SAME_TOLD_FIRST,
    JsonLine,
    LogHandler,
    OneLine,
    SeldomSame,
    message_of,
    one_line,
)
from cluster.local.stories import mistakes
from cluster.settings.node import LogConfig, LogFormat
from cluster.settings.settings import SettingsError
from cluster.settings.sources import read

PROGRAM = """
import logging, os, sys
from cluster.local.node_log import set_up_log
set_up_log()
for number in range(int(sys.argv[1])):
    logging.getLogger("test").warning(f"{number} " + "x" * 50)
    print("printed", number, file=sys.stderr)
"""


FAILS = """
from cluster.local import service
async def start():
    raise OSError(98, "a port is taken\\n{no line}")
raise SystemExit(service.run(start))
"""


def write_lines(
    count: int, path: Path, output: Path, program: str = PROGRAM, **settings: str
) -> None:
    """In a process of its own whose output goes to `output`, and whose log is to be `path`."""
    with output.open("ab") as stream:
        subprocess.run(
            [sys.executable, "-c", program, str(count)],
            env={"DLEDGER_LOG_FILE": str(path), **settings},
            stdout=stream,
            stderr=stream,
            check=True,
        )


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("name", logging.WARNING, "file", 1, message, args, None)


def test_foreign_text_makes_no_lines() -> None:
    text = OneLine().format(record("no topic %s", "a\n2026-01-01 ERROR forged\x1b[2J\u2028\u202e"))
    assert text == "no topic a\\n2026-01-01 ERROR forged\\x1b[2J\\u2028\\u202e"


def test_surrogates_can_be_written() -> None:
    assert one_line("\ud800").encode() == b"\\ud800"


def test_line_is_cut() -> None:
    assert len(one_line("\0" * 10_000_000)) < LINE_CHARS_MAX + 50
    assert one_line("x" * LINE_CHARS_MAX) == "x" * LINE_CHARS_MAX


def test_exception_keeps_its_traceback_and_forges_nothing(tmp_path: Path) -> None:
    found = record("failed")
    try:
        raise ValueError("a\nTraceback (most recent call last):\nforged")
    except ValueError as error:
        found.exc_info = (ValueError, error, error.__traceback__)
    text = OneLine().format(found)
    (tmp_path / "log.txt").write_text(text)
    assert "test_node_log.py" in text
    escaped = "ValueError: a\\nTraceback (most recent call last):\\nforged"
    assert mistakes(tmp_path) == [f"failed: {escaped}"]


def test_an_event_is_one_json_object_and_its_mistake_is_found(tmp_path: Path) -> None:
    found = record("no topic %s", "a\nb")
    found.created, found.msecs = 86_400.25, 250.0
    try:
        raise ValueError("a\nforged")
    except ValueError as error:
        found.exc_info = (ValueError, error, error.__traceback__)
    text = JsonLine().format(found)
    event = json.loads(text)
    assert "\n" not in text
    assert "test_node_log.py" in event.pop("error")
    assert event == {
        "time": "1970-01-02T00:00:00.250Z",
        "level": "WARNING",
        "name": "name",
        "message": "no topic a\\nb",
    }
    (tmp_path / "log.txt").write_text(f'{text}\n{{"time": cut "error": short\n')
    assert mistakes(tmp_path) == ["no topic a\\nb: ValueError: a\\nforged"]


def test_a_handler_writes_as_the_settings_say() -> None:
    stream = io.StringIO()
    handler = LogHandler(None, stream)
    for kind in (LogFormat.JSON, LogFormat.TEXT):
        handler.use(LogConfig(format=kind))
        handler.emit(record("one"))
    as_json, as_text = stream.getvalue().splitlines()
    assert json.loads(as_json)["message"] == "one"
    assert as_text.endswith("WARNING name: one")


def test_the_last_line_of_a_failed_start_has_the_format_of_the_log() -> None:
    """Collectors read each line as an object; `dledger up` shows people its message."""

    def told(**settings: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", FAILS],
            env=settings,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()

    events = [json.loads(line) for line in told(DLEDGER_LOG_FORMAT="json")]
    assert events[-1]["level"] == "CRITICAL"
    said = "dledger[port-taken]: a port is taken"
    advice = "; end what has the port, or take another one"
    assert events[-1]["message"] == f"{said}\\n{{no line}}{advice}"
    assert message_of(json.dumps(events[-1])) == events[-1]["message"]
    assert told()[-2:] == [said, f"{{no line}}{advice}"], "as it was"
    for line in ("{no line}", "[1]", "7", "a sentence"):
        assert message_of(line) == line


def test_same_sentence_is_told_ever_more_seldom() -> None:
    seldom = SeldomSame()
    told = sum(seldom.filter(record("the same of %d", number)) for number in range(100_000))
    assert SAME_TOLD_FIRST < told < SAME_TOLD_FIRST + 20
    assert seldom.filter(record("another"))


def test_log_of_a_launched_process_rotates(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    write_lines(1000, path, path, DLEDGER_LOG_BYTES="16384", DLEDGER_LOG_FILES="3")
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["log.1.txt", "log.2.txt", "log.txt"]
    assert all(file.stat().st_size < 16_700 for file in tmp_path.iterdir())
    tail = processes.log_tail(tmp_path)
    assert tail.endswith("printed 999\n")
    assert len(tail) == processes.LOG_TAIL_BYTES, "also when the newest file has just begun"


def test_process_in_the_foreground_writes_where_it_is_told(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    output = tmp_path / "terminal.txt"
    write_lines(1000, logs / "log.txt", output, DLEDGER_LOG_BYTES="16384")
    assert output.read_text() == ""
    assert len(list(logs.iterdir())) == 5, "the default"
    assert (logs / "log.txt").read_text().endswith("printed 999\n")


def test_a_nodes_settings_say_how_much_is_kept_and_the_environment_outdoes_them(
    tmp_path: Path,
) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[log]\nbytes = 20_000\nfiles = 2\nfile = "other.txt"\n')
    given = read({"log": LogConfig}, file, {"DLEDGER_LOG_FILES": "7"})
    assert given.build("log", LogConfig) == LogConfig(Path("other.txt"), 20_000, 7)
    origins = {row["key"]: row["origin"] for row in given.rows()}
    assert origins["log.files"] == "environment DLEDGER_LOG_FILES"
    assert origins["log.bytes"] == f"file {file}"
    for wrong in ("DLEDGER_LOG_BYTES", "DLEDGER_LOG_FILES", "DLEDGER_LOG_FORMAT"):
        with pytest.raises(SettingsError, match="log"):
            read({"log": LogConfig}, None, {wrong: "0"}).build("log", LogConfig)


def test_a_process_takes_its_nodes_settings_once_they_are_read(tmp_path: Path) -> None:
    path, settings = tmp_path / "log.txt", "Path(os.environ['DLEDGER_LOG_FILE']), 16384, 2"
    program = PROGRAM.replace("\nset_up_log()", f"\nset_up_log()\nuse_log(LogConfig({settings}))")
    program = f"from pathlib import Path\n{program}".replace(
        "import set", "import LogConfig, use_log, set"
    )
    write_lines(1000, path, tmp_path / "terminal.txt", program)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["log.1.txt", "log.txt", "terminal.txt"]
    assert path.read_text().endswith("printed 999\n")
