"""A Spark driver of `dledger bench spark-executors`: it reads a log once per line of its input.

executors_driver.py ⟨Work as JSON⟩

It first makes the warm-up reads and prints the id of its application. Then it answers each line:

    wake ─► an empty line      read ─► times of one read of the whole log, as JSON
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.bench.options import AS_CUT
from pipeline.bench.standalone import HOST, START_SECONDS_MAX
from pipeline.requirements import local_session

WAKING_RECORDS = 100
WAKE, READ = "wake", "read"


@dataclass(frozen=True, slots=True)
class Work:
    """Reads of `log` by `executors` executors with one slot each, in parts of `partition_bytes`.

    `memory`: memory of each executor, as Spark writes it; `warm_ups`: reads that are not measured,
    in which Java compiles its code.
    """

    master: str
    log: str
    executors: int
    partition_bytes: int
    memory: str
    warm_ups: int


@dataclass(frozen=True, slots=True)
class Partition:
    """Spark's figures of the task of one partition; `jvm_seconds` is the processor time of its
    thread in the JVM, without that of its Python process."""

    rows: int
    seconds: float
    jvm_seconds: float


@dataclass(frozen=True, slots=True)
class Took:
    """Times of one read of the whole log."""

    seconds: float
    partitions: list[Partition]


def run(work: Work) -> None:
    """Read the log, or wake the executors, once per input line, until the input ends."""
    wanted = {
        **AS_CUT,
        "spark.cores.max": str(work.executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": work.memory,
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": HOST,
    }
    os.environ["SPARK_LOCAL_IP"] = HOST
    name = f"spark-executors {work.executors}"
    with local_session(name, work.master, wanted) as spark:
        _wait_for_executors(spark, work.executors)
        for _ in range(work.warm_ups):
            _read(spark, work)
        print(spark.sparkContext.applicationId, flush=True)
        for turn, line in enumerate(sys.stdin):
            if line.strip() == WAKE:
                _wake(spark, work)
                print(flush=True)
            else:
                print(json.dumps(asdict(_took(spark, work, turn))), flush=True)


def _wake(spark: Any, work: Work) -> None:
    """Let each executor read some rows, because Spark ends idle Python workers after a minute."""
    some = {"recordsPerPartition": WAKING_RECORDS, "endIndex": WAKING_RECORDS * work.executors}
    _read(spark, work, **some)


def _took(spark: Any, work: Work, turn: int) -> Took:
    context = spark.sparkContext
    context.setJobGroup(f"turn {turn}", "one read")
    began = time.perf_counter()
    _read(spark, work)
    seconds = time.perf_counter() - began
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()  # else Spark has not stored the figures of some tasks yet
    found = []
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(f"turn {turn}"):
        for stage in tracker.getJobInfo(job).stageIds:
            tasks = scala.statusStore().taskList(stage, 0, 1 << 20)
            found += [_partition(tasks.apply(number)) for number in range(tasks.size())]
    return Took(seconds, found)


def _partition(task: Any) -> Partition:
    metrics = task.taskMetrics().get()
    return Partition(
        metrics.inputMetrics().recordsRead(),
        metrics.executorRunTime() / 1e3,
        metrics.executorCpuTime() / 1e9,
    )


def _read(spark: Any, work: Work, **more: int) -> None:
    reader = spark.read.format("dledger-log").options(**more)
    reader = reader.option("bytesPerPartition", work.partition_bytes)
    reader.load(work.log).write.format("noop").mode("overwrite").save()


def _wait_for_executors(spark: Any, count: int) -> None:
    """Wait until the application has `count` executors; a master starts them one by one."""
    context = spark.sparkContext._jsc.sc()
    deadline = time.monotonic() + START_SECONDS_MAX
    while context.getExecutorMemoryStatus().size() <= count:  # the driver is listed, too
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"fewer than {count} executors started; give them less memory or ask for fewer"
            )
        time.sleep(0.1)


if __name__ == "__main__":
    run(Work(**json.loads(sys.argv[1])))
