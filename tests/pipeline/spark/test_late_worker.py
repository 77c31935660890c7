"""A streaming query on a machine so crowded that imports take longer than Spark waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local.launcher import LocalCluster
from tests.waiting import limit

from ..source.filled import fill, new_topic
from .conftest import missing

#: Two seconds more than Spark waits for a connection; it begins when the query's own process is
#: about to import numpy, as pyspark does before it connects.
LATE = """
import sys
if any("python_streaming_source_runner" in word for word in sys.orig_argv):
    class Late:
        def find_spec(self, name, path=None, target=None):
            if name == "numpy":
                import time
                sys.meta_path.remove(self)
                time.sleep(12)
    sys.meta_path.insert(0, Late())
"""
PROGRAM = """
import sys
from pipeline.requirements import local_session

servers, topic, folder = sys.argv[1:]
with local_session("late", settings={"spark.driver.host": "127.0.0.1"}) as spark:
    frame = spark.readStream.format("dledger").option("servers", servers)
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest").load()
    writer = frame.writeStream.format("parquet").option("path", folder + "/table")
    writer = writer.option("checkpointLocation", folder + "/checkpoint")
    assert writer.trigger(availableNow=True).start().awaitTermination(200)
    print("rows", spark.read.parquet(folder + "/table").count())
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.mark.parametrize("python", ["", sys.executable])
def test_a_query_whose_process_imports_for_longer_than_spark_waits(
    local_cluster: LocalCluster, tmp_path: Path, python: str
) -> None:
    if why := missing():
        pytest.skip(why)
    topic = new_topic(local_cluster)
    fill(local_cluster, topic, 20)
    (tmp_path / "sitecustomize.py").write_text(LATE)
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    root = Path(__file__).resolve().parents[3]
    environment["PYTHONPATH"] = os.pathsep.join((str(tmp_path), str(root)))
    if python:
        environment["PYSPARK_PYTHON"] = python
    done = subprocess.run(
        [sys.executable, "program.py", local_cluster.nameserver, topic, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=limit(180),
    )  # fmt: skip
    if python:  # what users had before, and have without our program: the limit is Spark's own
        assert "Python worker failed to connect back" in done.stderr, done.stderr[-3000:]
    else:
        assert done.stdout.endswith("rows 20\n"), done.stderr[-3000:]
