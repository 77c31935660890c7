"""`dledger bench spark-kills`: a streaming driver killed again and again, leaders with it.

    numbers ─► topic ─► Spark ─┬─► table (Parquet)
                               └─► another topic
    each round: the driver, its JVM and its workers get SIGKILL at a random moment, and so does the
    leader at the same moment; both start again on what is on disk

At the end one driver runs to the end of the topic, and every number must be in the table and in
the other topic, once. Lost or doubled: exit code 1.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from cluster.bench.scratch import scratch_cluster
from cluster.client import ProducerConfig, blocking, connect
from cluster.commands.output import report_option, to_json
from cluster.local.launcher import LocalCluster
from pipeline.bench.kills_driver import SECONDS_MAX, Work
from pipeline.bench.options import folder_option

SOURCE, TARGET = "kills-in", "kills-out"
QUEUES = 3
START_SECONDS_MAX = 300.0  # of a driver, until both queries have committed something new
RANDOM_SECONDS_MAX = 3.0
STARTS_MAX = 3  # a driver that ends by itself, as Spark may on a crowded machine, starts again


@dataclass(frozen=True, slots=True)
class Options:
    """`rows_per_round` messages are added before every round."""

    rounds: int = 20
    rows_per_round: int = 5000
    seed: int = 0
    folder: str = ""


def run(options: Options) -> dict[str, Any]:
    """Counts under the names that every command prints."""
    chance = random.Random(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="dledger-kills-", dir=options.folder or None) as name,
        scratch_cluster(name) as cluster,
    ):
        with blocking.connect(cluster.nameserver) as mq:
            mq.admin().create_topic(SOURCE, QUEUES)
            mq.admin().create_topic(TARGET, QUEUES)
        work = Work(cluster.nameserver, SOURCE, TARGET, str(Path(name) / "spark"), last=False)
        sent = kills = 0
        for _ in range(options.rounds):
            sent = _send(cluster.nameserver, sent, options.rows_per_round)
            kills += _round(cluster, work, chance)
        sent = _send(cluster.nameserver, sent, options.rows_per_round)
        table = _last(work)
        topic = _count(cluster.nameserver, sent)
    lost_table, doubled_table = sent - table["distinct"], table["rows"] - table["distinct"]
    return {
        "rounds": options.rounds,
        "killed": kills,
        "acked": sent,
        "lost": lost_table + topic["lost"],
        "doubled": doubled_table + topic["doubled"],
        "table": {"lost": lost_table, "doubled": doubled_table},
        "topic": topic,
    }


def _round(cluster: LocalCluster, work: Work, chance: random.Random) -> int:
    """Start a driver, kill it and the leader, start the leader again; how many were killed."""
    driver = _working(work)
    try:
        time.sleep(chance.uniform(0, RANDOM_SECONDS_MAX))
        leader = cluster.leader()
    finally:
        _kill(driver)
    if leader is None:  # between two leaders: nobody to kill
        return 1
    cluster.kill(leader)
    time.sleep(chance.uniform(0, 0.5))
    cluster.start(leader)
    cluster.wait_ready()
    return 2


def _working(work: Work) -> subprocess.Popen[bytes]:
    """Starts a driver and waits until both of its queries have committed a new batch."""
    before = _committed(work)
    for _ in range(STARTS_MAX):
        driver = _start(work)
        deadline = time.monotonic() + START_SECONDS_MAX
        while driver.poll() is None and time.monotonic() < deadline:
            if all(now > then for now, then in zip(_committed(work), before, strict=True)):
                return driver
            time.sleep(0.05)
        _kill(driver)
    raise RuntimeError(f"no driver made progress: {_last_words(work)}")


def _start(work: Work) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipeline.bench.kills_driver", json.dumps(asdict(work))]
    with _log(work).open("wb") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=dict(os.environ))


def _kill(driver: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the driver and everything that it has started."""
    try:
        children = psutil.Process(driver.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    driver.kill()
    for child in children:
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(children, timeout=10)
    driver.communicate()


def _log(work: Work) -> Path:
    return Path(work.folder).parent / "driver.log"


def _last_words(work: Work) -> str:
    return _log(work).read_text(errors="replace")[-3000:]


def _committed(work: Work) -> list[int]:
    """The newest committed micro-batch of each query, -1 for none."""
    found = []
    for name in ("table", "topic"):
        folder = Path(work.folder) / f"checkpoint-{name}" / "commits"
        numbers = [int(p.name) for p in folder.glob("*") if p.name.isdigit()]
        found.append(max(numbers, default=-1))
    return found


def _last(work: Work) -> dict[str, int]:
    """Runs a driver to the end. Returns the counts of its table."""
    to_the_end = Work(work.servers, work.source, work.target, work.folder, last=True)
    for _ in range(STARTS_MAX):
        driver = _start(to_the_end)
        try:
            out, _ = driver.communicate(timeout=SECONDS_MAX + START_SECONDS_MAX)
        finally:
            if driver.poll() is None:
                _kill(driver)
        if not driver.returncode:
            counts: dict[str, int] = json.loads(out.splitlines()[-1])
            return counts
    raise RuntimeError(f"no driver came to the end: {_last_words(work)}")


def _send(servers: str, first: int, count: int) -> int:
    """The next `count` numbers, all acknowledged; the number that follows."""

    async def work() -> None:
        async with connect(servers) as mq:
            config = ProducerConfig(batching=True, in_flight_max=count)
            async with mq.producer(config=config) as producer:
                await producer.open_topic(SOURCE)
                sends = [producer.send(SOURCE, b"%d" % n) for n in range(first, first + count)]
                await asyncio.gather(*sends)

    asyncio.run(work())
    return first + count


def _count(servers: str, sent: int) -> dict[str, int]:
    """Counts the lost and doubled numbers of the other topic among those below `sent`."""
    with blocking.connect(servers) as mq:
        wanted = mq.admin().describe_topic(TARGET).message_count
        with mq.reader(TARGET) as reader:
            read = [reader.receive(10.0) for _ in range(wanted)]
    found = Counter(int(message.body) for message in read if message is not None)
    strange = [number for number in found if not 0 <= number < sent]
    assert not strange, f"numbers that nobody sent: {strange[:3]}"
    return {"lost": sent - len(found), "doubled": sum(found.values()) - len(found)}


def line(found: Mapping[str, Any]) -> str:
    """All of a run: `killed` counts drivers and leaders."""
    ways = "   ".join(
        f"{way} lost {found[way]['lost']} doubled {found[way]['doubled']}"
        for way in ("table", "topic")
    )
    word = "FAIL" if found["lost"] or found["doubled"] else "PASS"
    return (
        f"seed {found['seed']}   rounds {found['rounds']}   killed {found['killed']}   "
        f"sent {found['acked']}   {ways}   {word}"
    )


@click.command("spark-kills")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), default=20, show_default=True, help="How often."
)
@click.option(
    "--rows-per-round",
    type=click.IntRange(1, 100_000),
    default=5000,
    show_default=True,
    help="Messages before each kill.",
)
@click.option("--seed", type=int, help="Repeat a run's moments.")
@folder_option
@report_option
def command(rounds: int, rows_per_round: int, seed: int | None, folder: str, output: str) -> None:
    """SIGKILL a streaming driver and the leader, N times; count lost and doubled rows."""
    seed = random.randrange(1_000_000) if seed is None else seed
    found = {"seed": seed, **run(Options(rounds, rows_per_round, seed, folder))}
    click.echo(to_json(found) if output == "json" else line(found))
    sys.exit(1 if found["lost"] or found["doubled"] else 0)
