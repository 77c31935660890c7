"""A server's log: nobody forges a line, makes it long, or fills the disk with it."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from cluster.local import processes
from cluster.local.node_log import LINE_CHARS_MAX, SAME_TOLD_FIRST, OneLine, SeldomSame, one_line
from cluster.local.stories import mistakes

PROGRAM = """
import logging, os, sys
from cluster.local.node_log import set_up_log
set_up_log()
for number in range(int(sys.argv[1])):
    logging.getLogger("test").warning(f"{number} " + "x" * 50)
    print("printed", number, file=sys.stderr)
"""


def write_lines(count: int, path: Path, output: Path, **settings: str) -> None:
    """In a process of its own whose output goes to `output`, and whose log is to be `path`."""
    with output.open("ab") as stream:
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(count)],
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


def test_same_sentence_is_told_ever_more_seldom() -> None:
    seldom = SeldomSame()
    told = sum(seldom.filter(record("the same of %d", number)) for number in range(100_000))
    assert SAME_TOLD_FIRST < told < SAME_TOLD_FIRST + 20
    assert seldom.filter(record("another"))


def test_log_of_a_launched_process_rotates(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    write_lines(1000, path, path, DLEDGER_LOG_BYTES="20000", DLEDGER_LOG_FILES="3")
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["log.1.txt", "log.2.txt", "log.txt"]
    assert all(file.stat().st_size < 20_300 for file in tmp_path.iterdir())
    tail = processes.log_tail(tmp_path)
    assert tail.endswith("printed 999\n")
    assert len(tail) == processes.LOG_TAIL_BYTES, "also when the newest file has just begun"


def test_process_in_the_foreground_writes_where_it_is_told(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    output = tmp_path / "terminal.txt"
    write_lines(1000, logs / "log.txt", output, DLEDGER_LOG_BYTES="20000")
    assert output.read_text() == ""
    assert len(list(logs.iterdir())) == 5, "the default"
    assert (logs / "log.txt").read_text().endswith("printed 999\n")
