"""The worked example: lines of a log through a topic into counts and Parquet, a leader killed.

    lines ─► topic (three brokers) ─► Spark ─┬─► counts per 10 s and status (kept by Spark)
                  ▲                          └─► Parquet
                  └── the leader gets SIGKILL half way, and comes back

At the end the counts and the Parquet rows must be those of the lines that were sent: each line
once. Lines are those of a file, or of an access log made with a seed.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from cluster.bench.scratch import scratch_cluster
from cluster.client import ProducerConfig, blocking, connect
from cluster.commands.output import report_option, to_json
from cluster.local.launcher import LocalCluster
from pipeline.requirements import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "access-log"
QUEUES = 4
LINES_MAX = 1_000_000
WORD = r'" (\d{3}) '  # the status of an access log; lines without one count as "-"
PATHS = ("/", "/cart", "/orders", "/orders/17", "/login", "/img/a.png", "/api/v1/items")
STATUSES = ("200",) * 12 + ("304", "304", "404", "301", "500")
SESSION = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def access_log(seed: int, count: int) -> list[bytes]:
    """Lines in the common log format."""
    chance = random.Random(seed)
    begin = 1_767_225_600  # 1 Jan 2026
    lines = []
    for number in range(count):
        at = time.gmtime(begin + number // 50)
        host = f"10.{chance.randrange(4)}.{chance.randrange(256)}.{chance.randrange(256)}"
        request = f"{chance.choice(('GET', 'GET', 'GET', 'POST'))} {chance.choice(PATHS)} HTTP/1.1"
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", at)
        size = chance.randrange(100, 20_000)
        status = chance.choice(STATUSES)
        lines.append(f'{host} - - [{stamp}] "{request}" {status} {size}'.encode())
    return lines


def status_of(line: bytes) -> str:
    """As the query reads it."""
    found = re.search(WORD, line.decode("utf-8", "replace"))
    return found[1] if found else "-"


def queries(spark: SparkSession, servers: str, folder: str) -> list[Any]:
    """The two queries, running: counts in memory, rows in Parquet."""
    from pyspark.sql import functions as f

    def frame() -> Any:
        reader = spark.readStream.format("dledger").option("bootstrap.servers", servers)
        return reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()

    text = f.col("value").cast("string")
    status = f.regexp_extract(text, WORD, 1)
    named = f.when(status == "", "-").otherwise(status).alias("status")
    counts = frame().groupBy(f.window("timestamp", "10 seconds"), named).count()
    table = counts.writeStream.outputMode("complete").format("memory").queryName("counts")
    rows = frame().select("value", "queue", "offset").writeStream.format("parquet")
    rows = rows.option("path", f"{folder}/lines").option("checkpointLocation", f"{folder}/checks")
    return [table.start(), rows.trigger(processingTime="1 second").start()]


class Sender(threading.Thread):
    """Sends the lines at about `rate` a second; `done` of them are acknowledged."""

    def __init__(self, servers: str, lines: Sequence[bytes], rate: int) -> None:
        super().__init__(name="sender", daemon=True)
        self._servers, self._lines, self._rate = servers, lines, rate
        self.done = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send all lines; an exception ends the thread and is left in `error`."""
        try:
            asyncio.run(self._send())
        except BaseException as error:
            self.error = error

    async def _send(self) -> None:
        step = max(1, self._rate // 10)
        async with connect(self._servers) as mq:
            config = ProducerConfig(batching=True, in_flight_max=2 * step)
            async with mq.producer(config=config) as producer:
                await producer.open_topic(TOPIC)
                for first in range(0, len(self._lines), step):
                    part = self._lines[first : first + step]
                    pause = asyncio.create_task(asyncio.sleep(len(part) / self._rate))
                    await asyncio.gather(*(producer.send(TOPIC, line) for line in part))
                    self.done += len(part)
                    await pause


def run(lines: Sequence[bytes], rate: int, folder: str, say: Any) -> dict[str, Any]:
    """The whole demonstration; counts, and `passed`."""
    with scratch_cluster(folder) as cluster, local_session("demo", settings=SESSION) as spark:
        with blocking.connect(cluster.nameserver) as mq:
            mq.admin().create_topic(TOPIC, QUEUES)
        running = queries(spark, cluster.nameserver, folder)
        sender = Sender(cluster.nameserver, lines, rate)
        sender.start()
        killed = _kill_half_way(cluster, sender, len(lines), say)
        for query in running:
            query.processAllAvailable()
        counted = {
            row["status"]: row["count"]
            for row in spark.sql(
                "SELECT status, sum(count) AS count FROM counts GROUP BY status"
            ).collect()
        }
        windows = spark.table("counts").select("window").distinct().count()
        stored = spark.read.parquet(f"{folder}/lines").select("value").collect()
        for query in running:
            query.stop()
    rows = Counter(bytes(row.value) for row in stored)
    sent = Counter(lines)
    expected = dict(Counter(status_of(line) for line in lines))
    return {
        "sent": len(lines),
        "acked": sender.done,
        "killed": killed,
        "windows": windows,
        "counts": dict(sorted(counted.items())),
        "lost": sum((sent - rows).values()),
        "doubled": sum((rows - sent).values()),
        "passed": counted == expected and rows == sent,
    }


def _kill_half_way(cluster: LocalCluster, sender: Sender, total: int, say: Any) -> str:
    """Wait until half of the lines are acknowledged, kill the leader; wait for the rest."""
    killed = ""
    while sender.is_alive():
        time.sleep(0.05)
        if not killed and sender.done >= total // 2:
            killed = cluster.leader() or ""
            if killed:
                say(f"{sender.done} lines are acknowledged; SIGKILL for the leader, {killed}")
                cluster.kill(killed)
                time.sleep(1)
                cluster.start(killed)
    if sender.error is not None:
        raise sender.error
    say(f"{sender.done} lines are acknowledged; Spark reads the rest")
    return killed


@click.command()
@click.option("--input", "source", type=click.File("rb"), help="Send the lines of this file.")
@click.option(
    "--seed", type=int, default=7, show_default=True, help="Of the lines, without a file."
)
@click.option(
    "--lines",
    "count",
    type=click.IntRange(2, LINES_MAX),
    default=20_000,
    show_default=True,
    help="How many.",
)
@click.option(
    "--rate", type=click.IntRange(100, 50_000), default=2_000, show_default=True, help="Lines/s."
)
@report_option
def main(source: IO[bytes] | None, seed: int, count: int, rate: int, output: str) -> None:
    """A log through a topic into windowed counts and Parquet, while the leader is killed."""
    given = (
        [line.rstrip(b"\r\n") for line, _ in zip(source, range(LINES_MAX), strict=False)]
        if source
        else []
    )
    lines = [line for line in given if line] or access_log(seed, count)

    def say(text: str) -> None:
        click.echo(text, err=True)

    with tempfile.TemporaryDirectory(prefix="dledger-demo-") as folder:
        say("starting three brokers and Spark")
        found = run(lines, rate, folder, say)
    for status, number in found["counts"].items():
        say(f"  status {status:>4}  {number}")
    text = (
        f"sent {found['sent']}   counted {sum(found['counts'].values())}   windows "
        f"{found['windows']}   lost {found['lost']}   doubled {found['doubled']}   "
        f"{'PASS' if found['passed'] else 'FAIL'}"
    )
    click.echo(to_json(found) if output == "json" else text)
    sys.exit(0 if found["passed"] else 1)


if __name__ == "__main__":
    main()
