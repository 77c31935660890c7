"""Ranges → tasks: everything once, few tasks for small queues, cuts for big ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.protocol.json_body import MessageQueue
from pipeline.source.offsets import QueueRange
from pipeline.source.tasks import Division, Task, divide

ROOT = Path(__file__).parents[3]


def ranges(*sizes: int, broker: str = "a", first: int = 0) -> list[QueueRange]:
    return [
        QueueRange(MessageQueue("t", broker, number), first, first + size)
        for number, size in enumerate(sizes)
    ]


def covered(tasks: list[Task]) -> list[tuple[MessageQueue, int]]:
    return sorted(
        (item.queue, offset) for task in tasks for item in task for offset in range(*item[1:])
    )


def test_many_small_queues_share_a_task() -> None:
    tasks = divide(ranges(*[10] * 500), {"t": 100}, Division(64 << 20))
    assert len(tasks) == 1
    assert len(tasks[0]) == 500


def test_big_queues_are_cut_at_the_same_fractions() -> None:
    tasks = divide(ranges(1000, 2000), {"t": 100}, Division(100_000))
    assert [[(item.start, item.end) for item in task] for task in tasks] == [
        [(0, 333), (0, 666)],
        [(333, 666), (666, 1333)],
        [(666, 1000), (1333, 2000)],
    ]


def test_bounds_of_the_number_of_tasks() -> None:
    wide = ranges(1000, 1000)
    assert len(divide(wide, {"t": 100}, Division(1 << 30, least=7))) == 7
    assert len(divide(wide, {"t": 100}, Division(100, most=3))) == 3
    assert len(divide(ranges(2), {"t": 100}, Division(1 << 30, least=7))) == 2, "no empty tasks"
    brokers = [*ranges(5, broker="a"), *ranges(5, broker="b"), *ranges(5, broker="c")]
    assert len(divide(brokers, {"t": 100}, Division(100, most=2))) == 2
    assert divide(ranges(0, 0), {}, Division(100)) == []


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(1, 100), st.integers(0, 9)
)
def test_no_task_has_more_messages_than_wanted(
    sizes: list[int], records_max: int, least: int
) -> None:
    items = [*ranges(*sizes, broker="a"), *ranges(*sizes[:3], broker="b")]
    tasks = divide(items, {"t": 3}, Division(1 << 20, least, records_max=records_max))
    assert covered(tasks) == covered([tuple(items)])
    for task in tasks:
        count = sum(item.size for item in task)
        assert count <= records_max or all(item.size == 1 for item in task)


SIZES = st.lists(st.integers(0, 60), max_size=12)


@given(SIZES, SIZES, st.integers(1, 500), st.integers(0, 9), st.integers(0, 9))
def test_every_message_is_in_exactly_one_task(
    first: list[int], second: list[int], partition_bytes: int, least: int, most: int
) -> None:
    items = [*ranges(*first, broker="a", first=7), *ranges(*second, broker="b")]
    how = Division(partition_bytes, min(least, most) if most else least, most)
    tasks = divide(items, {"t": 3}, how)
    assert covered(tasks) == covered([tuple(items)])
    assert all(item.end > item.start for task in tasks for item in task)
    assert divide(list(reversed(items)), {"t": 3}, how) == tasks, "a plan is a pure function"
    if most:
        assert len(tasks) <= most


def test_workers_need_little() -> None:
    """Executors may have a zip of our code and Spark's packages only (docs/spec/pipeline.md 1)."""
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra dledger[spark]")
    program = (
        "import sys, pipeline.source.reading, pipeline.source.plan\n"
        "heavy = {'aiohttp', 'click', 'rich', 'prometheus_client', 'psutil', 'yaml', 'pysyncobj',"
        " 'dledger.core', 'dledger.runtime', 'dledger.log', 'dledger.replica', 'cluster.broker',"
        " 'pyspark', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
