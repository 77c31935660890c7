"""The table of processor time: which file had it, here and in what it started."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.cpu_report import START, Meter

_WORK = "import time\nwhile time.process_time() < 0.1: pass"


def test_time_belongs_to_the_file_that_was_entered_before() -> None:
    meter, ended = Meter(), time.process_time() + 0.05
    meter.enter("tests/a/test_a.py")
    while time.process_time() < ended:
        pass
    subprocess.run([sys.executable, "-c", _WORK], check=True)
    meter.enter("tests/a/test_b.py")
    meter.enter("tests/a/test_b.py")
    assert set(meter.here) == {START, "tests/a/test_a.py"}
    assert meter.here["tests/a/test_a.py"] >= 0.05
    assert meter.apart["tests/a/test_a.py"] > 0.05  # in ticks of 0.01 s


def test_a_process_that_still_runs_is_counted() -> None:
    meter = Meter()
    meter.enter("tests/a/test_a.py")
    with subprocess.Popen(
        [sys.executable, "-c", f"{_WORK}\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        meter.enter("tests/a/test_b.py")
    assert meter.apart["tests/a/test_a.py"] > 0.05  # it counts in ticks


def test_folders_and_workers_are_added_up_and_the_dearest_is_first() -> None:
    meter = Meter()
    meter.add({"tests/a/b/test_a.py": 1.0, START: 0.5}, {"tests/a/b/test_a.py": 2.0})
    meter.add({"tests/a/b/test_b.py": 4.0, START: 0.5}, {})
    rows = [line.split(maxsplit=2) for line in meter.lines(1) if line]
    assert rows[1:] == [
        ["6.00", "2.00", "in all"],
        ["5.00", "2.00", "tests/a/b/"],
        ["4.00", "0.00", "tests/a/b/test_b.py"],
    ]
