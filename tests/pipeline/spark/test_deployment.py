"""Other ways to run Spark, each in a program of its own: executors in processes, a standalone
master and worker, Spark Connect. All from what pip installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.launcher import LocalCluster
from tests.waiting import limit, wait_until

from ..source.filled import fill, new_topic
from .conftest import missing

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from pyspark.sql import SparkSession
import pipeline

kind, where, servers, topic, folder = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false")
if kind == "connect":
    spark = builder.remote(where).getOrCreate()
else:
    builder = builder.config("spark.driver.host", "127.0.0.1").master(where)
    spark = builder.config("spark.executor.memory", "512m").getOrCreate()
if kind != "shim":
    pipeline.register(spark)
given = {"servers": servers, "subscribe": topic, "minPartitions": "4"}
frame = spark.read.format("dledger").options(**given).load()
assert frame.select("value").distinct().count() == 60
reader = spark.readStream.format("dledger").options(startingOffsets="earliest", **given)
writer = reader.load().writeStream.format("parquet").option("path", folder + "/table")
writer = writer.option("checkpointLocation", folder + "/checkpoint")
query = writer.trigger(availableNow=True).start()
assert query.awaitTermination(90)
assert spark.read.parquet(folder + "/table").count() == 60
print("all of it")
spark.stop()
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


def _run(kind: str, where: str, cluster: LocalCluster, folder: Path) -> None:
    topic = new_topic(cluster)
    fill(cluster, topic, 60)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), kind, where, cluster.nameserver, topic, str(folder)],
        env=_environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.endswith("all of it\n"), done.stderr[-4000:]


def _environment() -> dict[str, str]:
    """Without the variables of this process's own session."""
    kept = {
        key: text for key, text in os.environ.items() if not key.startswith(("SPARK", "PYSPARK"))
    }
    return {
        **kept,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    if why := missing():
        pytest.skip(why)


def test_spark_finds_the_source_by_itself(local_cluster: LocalCluster, tmp_path: Path) -> None:
    _run("shim", "local[2]", local_cluster, tmp_path)


def test_executors_in_processes_of_their_own(local_cluster: LocalCluster, tmp_path: Path) -> None:
    _run("classic", "local-cluster[2,1,600]", local_cluster, tmp_path)


def test_a_standalone_master_and_worker(
    local_cluster: LocalCluster, tmp_path: Path, free_address: str
) -> None:
    with _standalone(free_address, tmp_path) as master:
        _run("classic", master, local_cluster, tmp_path)


def test_spark_connect(local_cluster: LocalCluster, tmp_path: Path) -> None:
    _run("connect", "local[2]", local_cluster, tmp_path)


@contextlib.contextmanager
def _standalone(host: str, folder: Path) -> Iterator[str]:
    """A master and a worker, both killed at the end."""
    import pyspark

    home = Path(pyspark.__file__).parent
    spark_class = [shutil.which("bash") or "bash", str(home / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    environment = {**_environment(), "SPARK_LOCAL_IP": host, "SPARK_HOME": str(home)}
    address = f"spark://{host}:7077"
    commands = (
        [f"{deploy}.master.Master", "--host", host, "--port", "7077", "--webui-port", "18080"],
        [f"{deploy}.worker.Worker", "-c", "2", "-m", "1g", "-d", str(folder / "work"), address],
    )
    started = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"daemon-{number}.log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [*spark_class, *command], env=environment, stdout=log, stderr=log
                    )
                )
            if not number:
                _until_listening(host, 7077)
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait(20)


def _until_listening(host: str, port: int) -> None:
    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection((host, port), limit(1.0)):
            return True
        return False

    wait_until(listens, f"{host}:{port} listens", 60.0)
