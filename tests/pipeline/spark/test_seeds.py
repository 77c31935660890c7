"""Seeded runs of the sink (seeds.py): 0 lost, 0 doubled, or refused before the first row.

    scripts/spark tests/pipeline/spark/test_seeds.py        six of them
    DLEDGER_SEEDS=0..200                                    so many

On the standalone cluster, whose workers have addresses of their own: Spark starts a speculative
copy of a task on another host only. One session runs all seeds. Results of each seed go to a file
of the evidence folder at once; a run that is stopped goes on from there when `DLEDGER_SEEDS` is
given.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.client import Account, ClientConfig, ProducerConfig, blocking
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

from .kept_results import results_file
from .seed_judge import complaints
from .standalone import Standalone, family, kill_all

JOB = Path(__file__).with_name("seeds.py")
ROWS = 1200
SEEDS = os.environ.get("DLEDGER_SEEDS", "")
ACCOUNTS = """
accounts:
- accessKey: master
  secretKey: master-secret
  admin: true
- accessKey: reader
  secretKey: reader-secret
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""
ADMIN = {"client.accessKey": "master", "client.secretKey": "master-secret"}
READER = {"client.accessKey": "reader", "client.secretKey": "reader-secret"}
CONFIG = ClientConfig(account=Account("master", "master-secret"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(36_000 if SEEDS else 1800)]


def test_each_seed_stores_each_row_once(
    standalone: Standalone, make_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    first, end = (int(part) for part in (SEEDS or "0..6").split(".."))
    results = tmp_path / "results.jsonl"
    if SEEDS:
        results = results_file("spark-sink-seeds")
    cluster = brokers(make_cluster, tmp_path)
    topic = filled(cluster)
    known = json.dumps({"admin": ADMIN, "reader": READER, "writer": ADMIN})
    words = (cluster.nameserver, topic, str(ROWS), str(tmp_path), str(results))
    where = {**standalone.variables, "JOB": str(shutil.copy(JOB, tmp_path))}
    log = tmp_path / "driver.log"
    with log.open("w") as out:
        job = standalone.deployment.start(
            "a job", where, *words, str(first), str(end), known, cwd=tmp_path, log=out
        )
    try:
        assert job.wait(limit(36_000)) == 0, log.read_text()[-4000:]
    finally:
        kill_all(family(job.pid))
    found = [json.loads(line) for line in results.read_text().splitlines()]
    mine = {row["seed"]: row for row in found if first <= row["seed"] < end and "attempts" in row}
    sys.stdout.write(table(list(mine.values())))
    assert sorted(mine) == list(range(first, end))
    wrong = {seed: said for seed, row in mine.items() if (said := complaints(row))}
    assert not wrong, wrong


def brokers(make: Callable[..., LocalCluster], folder: Path) -> LocalCluster:
    """Three with accounts, which have no raw ranges while there is a file `older` in `folder`."""
    accounts = folder / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    cluster = make(3, {"broker.acl_file": str(accounts), "broker.cluster_secret": "one for all"})
    cluster.down()
    cluster.node_module = "tests.pipeline.spark.older_broker"
    cluster.environment |= {name: {"OLDER_WHEN": str(folder / "older")} for name in cluster.brokers}
    cluster.up()
    return cluster


def filled(cluster: LocalCluster) -> str:
    """A topic with the numbers below ROWS, whose queues take turns in the log."""
    topic = f"seeds-{uuid.uuid4().hex[:8]}"
    with blocking.connect(cluster.nameserver, CONFIG) as mq:
        mq.admin().create_topic(topic, 4)
        config = ProducerConfig(batching=True, in_flight_max=ROWS)
        with mq.producer(config=config) as producer:
            producer.open_topic(topic)
            sent = [
                producer.send_nowait(topic, b"%d" % number, queue_id=number // 50 % 4)
                for number in range(ROWS)
            ]
            producer.flush()
            for receipt in sent:
                receipt.result()
    return topic


def table(rows: list[dict[str, Any]]) -> str:
    """What was drawn, how often it came about, and what became of it; a line each."""
    marks, shapes = Counter[str](), Counter[str]()
    for row in rows:
        marks.update(row["marks"])
        first, *second = row["rounds"]
        shapes["foreachBatch" if row["foreachBatch"] else "writeStream"] += 1
        shapes["refused"] += bool(row["error"])
        for other in second:
            for what in ("fetch", "account", "older", "shuffle", "partitions", "aqe"):
                shapes[f"other {what}"] += first[what] != other[what]
    counts = {
        "seeds": len(rows),
        "rows": len(rows) * ROWS,
        "lost": sum(row["lost"] for row in rows),
        "doubled": sum(row["doubled"] for row in rows),
        "attempts that failed": marks["failed"],
        "attempts that were slow": marks["slow"],
        "attempts that came again": marks["again"],
        "of these speculative copies": marks["again"] - marks["failed"],
        **dict(sorted(shapes.items())),
    }
    return "".join(f"{name:28}{count:8}\n" for name, count in counts.items())
