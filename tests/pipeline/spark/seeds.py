"""Seeded runs of the sink in Spark: what a batch's second computation has otherwise than its first.

    seeds.py ⟨servers⟩ ⟨topic in⟩ ⟨rows⟩ ⟨folder⟩ ⟨results⟩ ⟨first seed⟩ ⟨end⟩ [⟨json of accounts⟩]

Each seed streams the topic into a topic of its own, in two computations of the same batch: the
commit of the first is taken away, so that Spark computes the batch again, as after a driver that
died. Drawn for each: how topics are read, under which account, of brokers that have raw ranges or
are too old for them, how rows are shuffled, with how many partitions, with AQE or without, which
tasks fail half way, and which are so slow that Spark starts a speculative copy of them. A line of
JSON for each seed goes to the results at once; seeds that are there already are passed over. It has
no import of the tests: it runs where only dledger is installed.
"""

import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import pipeline
from cluster.client import Account, ClientConfig, blocking

SESSION = {
    "spark.ui.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.task.maxFailures": "8",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.task.duration.threshold": "1s",  # of a stage that has a task or two
}
SHUFFLES = ("none", "round robin", "by key", "rebalance")
#: How long a slow attempt waits for its speculative copy: so many looks, so many seconds apart.
LOOKS, LOOK_SECONDS = 60, 0.1
#: Marks of an attempt that has rows, made before it gives the first of them away.
BEGUN = ("first", "again")
#: How a traceback ends: the name of an exception of a module, and its text.
RAISED = re.compile(r"[a-z_]\w*(\.\w+)+: ")
Batches = Iterator[pa.RecordBatch]


def shaken(name: str, folder: str, odds: tuple[float, float]) -> Callable[[Batches], Batches]:
    """Rows in another order in each attempt; first attempts fail, or wait, half way with `odds`."""

    def shake(batches: Batches) -> Batches:
        table = pa.Table.from_batches(found) if (found := list(batches)) else None
        if table is None or not table.num_rows:
            return
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.attemptNumber()
        chance = random.Random(f"{name}/{partition}").random()
        order = random.SystemRandom().sample(range(table.num_rows), table.num_rows)
        parts = table.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=100)
        mark(folder, name, partition, "again" if attempt else "first")
        for number, batch in enumerate(parts):
            if number == len(parts) // 2 and not attempt:
                if chance < odds[0]:
                    mark(folder, name, partition, "failed")
                    raise RuntimeError("this attempt fails half way")
                if chance < odds[0] + odds[1]:
                    mark(folder, name, partition, "slow")
                    wait_for_a_copy(folder, name, partition)
            yield batch

    return shake


def mark(folder: str, name: str, partition: int, what: str) -> None:
    """For the results: how much of what was drawn came about."""
    (Path(folder) / "marks" / f"{name}-{partition}-{what}-{os.getpid()}").touch()


def wait_for_a_copy(folder: str, name: str, partition: int) -> None:
    """Until another attempt of the task has begun; where none comes, for a while."""
    pause = threading.Event()
    for _ in range(LOOKS):
        if any((Path(folder) / "marks").glob(f"{name}-{partition}-again-*")):
            return
        pause.wait(LOOK_SECONDS)


class Runs:
    """All seeds of one session."""

    def __init__(self, spark: Any, words: list[str]) -> None:
        self._spark = spark
        self._servers, self._topic, rows, self._folder, *_ = words
        self._rows = int(rows)
        accounts: dict[str, dict[str, str]] = json.loads(words[7]) if len(words) > 7 else {}
        self._readers = [name for name in accounts if name != "writer"] or [""]
        self._options = accounts
        writer = accounts.get("writer", {})
        self._config = ClientConfig()
        if writer:
            account = Account(writer["client.accessKey"], writer["client.secretKey"])
            self._config = ClientConfig(account=account)

    def run(self, seed: int) -> dict[str, Any]:
        """One seed: what was drawn, and what became of it."""
        begun = time.monotonic()
        chance = random.Random(seed)
        target, rounds = f"{self._topic}-{seed}", []
        with blocking.connect(self._servers, self._config) as mq:
            mq.admin().create_topic(target, 4)
        each = chance.random() < 0.3
        error = ""
        for number in range(2):
            drawn = {
                "fetch": chance.choice(("raw", "pull", "auto")),
                "account": chance.choice(self._readers),
                "older": chance.random() < 0.25,
                "shuffle": chance.choice(SHUFFLES),
                "partitions": chance.randint(1, 4),
                "aqe": chance.random() < 0.5,
                "failing": chance.choice((0.0, 0.3, 0.7)),
                "slow": chance.choice((0.0, 0.0, 0.4)),
            }
            if drawn["older"] or drawn["account"] not in ("", "admin"):
                # Raw ranges are for administrators, and of brokers that have them.
                drawn["fetch"] = {"raw": "auto"}.get(drawn["fetch"], drawn["fetch"])
            rounds.append(drawn)
            self._brokers_are(older=drawn["older"])
            try:
                self._compute(f"{seed}-{number}", target, each, drawn)
            except Exception as problem:
                error = sentence(str(problem))
                break
            if not number:
                take_back(Path(self._folder) / f"checkpoint-{seed}" / "commits")
        self._brokers_are(older=False)
        found = self._values(target)
        wanted = Counter(b"%d" % number for number in range(self._rows))
        marked = [path.name.split("-") for path in (Path(self._folder) / "marks").glob(f"{seed}-*")]
        marks = Counter(what for _, _, _, what, _ in marked)
        begun_in = Counter(int(at) for _, at, _, what, _ in marked if what in BEGUN)
        return {
            "seed": seed,
            "foreachBatch": each,
            "rounds": rounds,
            "attempts": [begun_in[at] for at in range(len(rounds))],
            "error": error,
            "lost": (wanted - found).total(),
            "doubled": (found - wanted).total(),
            "marks": dict(marks),
            "seconds": round(time.monotonic() - begun, 1),
        }

    def _brokers_are(self, *, older: bool) -> None:
        """Of an earlier release, or of this one: what the file is for, `older_broker.py` says."""
        path = Path(self._folder) / "older"
        if older:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def _compute(self, name: str, target: str, each: bool, drawn: dict[str, Any]) -> None:
        self._spark.conf.set("spark.sql.adaptive.enabled", str(drawn["aqe"]).lower())
        self._spark.conf.set("spark.sql.shuffle.partitions", str(drawn["partitions"]))
        options = {
            "servers": self._servers,
            "subscribe": self._topic,
            "startingOffsets": "earliest",
            "columns": "value",
            "fetch": drawn["fetch"],
            **self._options.get(drawn["account"], {}),
        }
        rows = self._spark.readStream.format("dledger").options(**options).load()
        count = drawn["partitions"]
        if drawn["shuffle"] == "round robin":
            rows = rows.repartition(count)
        elif drawn["shuffle"] == "by key":
            rows = rows.repartition(count, "value")
        elif drawn["shuffle"] == "rebalance":
            rows = rows.hint("rebalance")
        odds = drawn["failing"], drawn["slow"]
        rows = rows.mapInArrow(shaken(name, self._folder, odds), "value BINARY")
        sink = {"servers": self._servers, "topic": target, **self._options.get("writer", {})}

        def write(batch: Any, number: int) -> None:
            known = {"txnAppId": target, "txnVersion": str(number)}
            batch.write.format("dledger").options(**sink, **known).mode("append").save()

        writer = rows.writeStream
        writer = writer.foreachBatch(write) if each else writer.format("dledger").options(**sink)
        seed = name.split("-")[0]
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoint-{seed}")
        writer.trigger(availableNow=True).start().awaitTermination()

    def _values(self, topic: str) -> Counter[bytes]:
        with blocking.connect(self._servers, self._config) as mq:
            count = mq.admin().describe_topic(topic).message_count
            with mq.reader(topic) as reader:
                found = [reader.receive(120.0) for _ in range(count)]
        return Counter(message.body for message in found if message is not None)


def sentence(error: str) -> str:
    """The last line of a traceback in Spark's message, `class: text`, else its beginning."""
    found = [line for line in error.splitlines() if RAISED.match(line)]
    return (found or [error])[-1][:300]


def take_back(commits: Path) -> None:
    """The newest batch counts as not written: the query computes it again."""
    newest = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)


def main() -> None:
    words = sys.argv[1:]
    results, first, end = Path(words[4]), int(words[5]), int(words[6])
    (Path(words[3]) / "marks").mkdir(exist_ok=True)
    builder = SparkSession.builder.appName("seeds")
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    pipeline.register(spark)
    runs = Runs(spark, words)
    lines = results.read_text().splitlines() if results.exists() else []
    # Without "attempts": of an earlier release, which noted less than is judged now.
    done = {row["seed"] for row in map(json.loads, lines) if "attempts" in row}
    for seed in range(first, end):
        if seed not in done:
            found = json.dumps(runs.run(seed))
            with results.open("a") as out:
                out.write(f"{found}\n")
    spark.stop()


if __name__ == "__main__":
    main()
