"""Driver, executors, master and leader get SIGKILL while a shuffle feeds the sink: each row once.

    scripts/spark tests/pipeline/spark/test_cluster_kills.py     one kill of each kind
    DLEDGER_SPARK_KILLS=10                                       so many of each

On the standalone cluster. A lap has topics of its own and one kill of each kind, in random order,
each at a random moment of a batch; at its end Spark's `count` and the rows themselves are compared
with what was sent. Laps go to a file of the evidence folder at once; a run that is stopped goes on
from there when `DLEDGER_SPARK_KILLS` is given.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster
from tests.waiting import limit, wait_until

from ..source.filled import fill, new_topic
from .kept_results import results_file
from .standalone import Standalone, family, kill_all
from .test_sink import bodies

JOB = Path(__file__).with_name("killed.py")
KILLS = os.environ.get("DLEDGER_SPARK_KILLS", "")
ROWS = 1000  # before each kill
RANDOM_SECONDS_MAX = 1.0
#: A driver that ends by itself is started again, as whatever supervises it would.
STARTS_MAX = 3
pytestmark = [pytest.mark.long, pytest.mark.timeout(36_000 if KILLS else 1800)]


class Job:
    """The driver and what it works on: laps, each with a query of its own."""

    def __init__(self, standalone: Standalone, cluster: LocalCluster, folder: Path) -> None:
        self.standalone, self.cluster, self.folder = standalone, cluster, folder
        self.by_itself = 0
        self._program = str(shutil.copy(JOB, folder))
        self._driver: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Unless one runs."""
        if self._driver is not None and self._driver.poll() is None:
            return
        where = {**self.standalone.variables, "JOB": self._program}
        with self.log.open("a") as log:
            self._driver = self.standalone.deployment.start(
                "a job", where, self.cluster.nameserver, str(self.folder), cwd=self.folder, log=log
            )

    def kill(self) -> None:
        """SIGKILL for the driver, its JVM and its workers."""
        if self._driver is not None:
            kill_all(family(self._driver.pid))
            self._driver.wait(limit(20))
            self._driver = None

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Waits; the driver is there meanwhile."""

        def met() -> bool:
            if self._driver is not None and self._driver.poll() is not None:
                self.by_itself += 1
                assert self.by_itself <= STARTS_MAX, self.log.read_text()[-6000:]
                self.start()
            return bool(condition())

        try:
            wait_until(met, what, 600)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-6000:]}") from None


class Lap:
    """One query, with one kill of each kind."""

    def __init__(self, job: Job, number: int) -> None:
        self._job, self._number = job, number
        self._chance = random.Random(number)
        self._kills = {
            "driver": self._driver,
            "executors": self._executors,
            "master": self._master,
            "leader": self._leader,
        }
        self.folder = job.folder / f"lap-{number:04}"
        self.folder.mkdir()
        self._topics = {name: new_topic(job.cluster) for name in ("source", "target")}
        self._sent = Counter[bytes]()
        self._send()
        (self.folder / "topics.json").write_text(json.dumps(self._topics))

    def run(self) -> dict[str, Any]:
        """What was killed, and what is in the topic."""
        begun, ended = time.monotonic(), self._job.by_itself
        kinds = self._chance.sample(sorted(self._kills), len(self._kills))
        for kind in kinds:
            self._send()
            self._job.until(self._in_a_batch, f"a batch before the kill of the {kind}")
            threading.Event().wait(self._chance.uniform(0, RANDOM_SECONDS_MAX))
            before = max(self._numbers("offsets"))
            self._kills[kind]()
            self._job.until(
                lambda before=before: max(self._numbers("commits")) >= before,
                f"the batch after the kill of the {kind}",
            )
        (self.folder / "sent").touch()
        result = self.folder / "result.json"
        self._job.until(result.exists, "all is written")
        found = bodies(self._job.cluster, self._topics["target"])
        return {
            "lap": self._number,
            "kinds": kinds,
            "rows": self._sent.total(),
            "batches": max(self._numbers("commits")) + 1,
            "count": json.loads(result.read_text())["count"],
            "lost": (self._sent - found).total(),
            "doubled": (found - self._sent).total(),
            "driver ended by itself": self._job.by_itself - ended,
            "seconds": round(time.monotonic() - begun),
        }

    def _send(self) -> None:
        sent = fill(self._job.cluster, self._topics["source"], ROWS, self._sent.total())
        self._sent.update(message.body for message in sent)

    def _numbers(self, what: str) -> list[int]:
        folder = self.folder / "checkpoint" / what
        return [-1, *(int(path.name) for path in folder.glob("[0-9]*"))]

    def _in_a_batch(self) -> bool:
        return max(self._numbers("offsets")) > max(self._numbers("commits")) >= 0

    def _driver(self) -> None:
        self._job.kill()
        self._job.start()

    def _executors(self) -> None:
        """Of one worker or of both; the master has new ones started."""
        standalone = self._job.standalone
        self._job.until(standalone.executors, "there are executors")
        some = self._chance.choice(((1,), (2,), (1, 2)))
        kill_all([process for number in some for process in standalone.executors(number)])

    def _master(self) -> None:
        """The job goes on without it; a master that starts again knows workers and job."""
        standalone = self._job.standalone
        before = max(self._numbers("offsets"))
        standalone.kill(0)
        self._job.until(lambda: max(self._numbers("commits")) >= before, "a batch without a master")
        recovered = standalone.recoveries()
        standalone.start(0)
        self._job.until(lambda: standalone.recoveries() > recovered, "the master knows its cluster")

    def _leader(self) -> None:
        cluster = self._job.cluster
        leader = wait_until(cluster.leader, "there is a leader")
        cluster.kill(leader)
        threading.Event().wait(self._chance.uniform(0, RANDOM_SECONDS_MAX))
        cluster.start(leader)
        cluster.wait_ready()


def test_each_row_is_there_once_whatever_is_killed(
    standalone: Standalone, make_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    laps = int(KILLS or 1)
    results = tmp_path / "results.jsonl"
    if KILLS:
        results = results_file("spark-cluster-kills")
    lines = results.read_text().splitlines() if results.exists() else []
    found = {row["lap"]: row for row in map(json.loads, lines)}
    job = Job(standalone, make_cluster(3), tmp_path)
    try:
        for number in range(laps):
            if number not in found:
                lap = Lap(job, number)
                job.start()
                row = found[number] = lap.run()
                with results.open("a") as out:
                    out.write(f"{json.dumps(row)}\n")
    finally:
        job.kill()
    mine = [found[number] for number in range(laps)]
    sys.stdout.write("".join(f"{json.dumps(row)}\n" for row in mine))
    for row in mine:
        assert (row["lost"], row["doubled"]) == (0, 0), row
        assert row["count"] == row["rows"], row
