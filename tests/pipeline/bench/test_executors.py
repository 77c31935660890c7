"""`dledger bench spark-executors`: what it makes of its turns. A cluster runs it in
tests/pipeline/spark/test_bench.py.
"""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")

from pipeline.bench.executors import Turn, result
from pipeline.bench.executors_driver import Partition, Took
from pipeline.bench.standalone import end
from tests.waiting import wait_until


def _turn(seconds: float, cpu: float, *rows: int) -> Turn:
    return Turn(Took(seconds, [Partition(count, count / 100, count / 200) for count in rows]), cpu)


def test_figures_and_bars() -> None:
    one = [_turn(4.0, 2.0, 500, 500), _turn(2.0, 3.0, 500, 500), _turn(1.0, 1.0, 500, 500)]
    found = result({1: one, 2: [_turn(1.0, 2.2, 480, 520)]}, rows=1000, row_bytes=250)
    assert found["executors"]["1"]["rows_per_s"] == 500, "the median of its turns"
    assert found["executors"]["1"]["cpu_us_a_row"] == 2000
    assert found["executors"]["2"]["partitions"] == {
        "count": 2,
        "cpu_s": 1.1,
        "rows_spread": 1.083,
        "seconds": 5.0,
        "seconds_spread": 1.083,
        "jvm_cpu_s": 2.5,
        "jvm_cpu_spread": 1.083,
    }
    assert found["beside_one"]["2"] == {"cpu_a_row": 1.1, "rows_per_s": 2.0}
    assert found["bars"] == {"cpu_met": True, "partitions_met": True}
    worse = result({1: one, 2: [_turn(1.0, 2.4, 400, 600)]}, rows=1000, row_bytes=250)
    assert worse["bars"] == {"cpu_met": False, "partitions_met": False}


def test_a_process_ends_with_all_that_it_started() -> None:
    words = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    parent = subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE)
    known = psutil.Process(parent.pid)
    wait_until(lambda: len(known.children()) == 1, "it has a child", 20)
    (child,) = known.children()
    end(parent)
    assert parent.returncode == -9
    assert not child.is_running()
