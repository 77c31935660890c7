"""One session for all Spark tests: its start costs more than all of them together."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.waiting import limit

from .standalone import Deployment, Standalone

FAST = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def missing() -> str:
    """What these tests lack here, "" for nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark, from the extra dledger[spark]"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "needs Java 17 or newer"
    return ""


@pytest.fixture(scope="module")
def standalone(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[Standalone]:
    """A master and two workers, with the environment of the tests; a test leaves all running."""
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("standalone")
    hosts = new_address(), new_address(), new_address()
    deployment = Deployment(folder / "deployed")
    with Standalone(deployment, hosts, folder / "run", [deployment.here] * 3).running() as found:
        yield found


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if why := missing():
        pytest.skip(why)
    from pyspark.sql import SparkSession

    import pipeline
    from pipeline.connect_first import worker_python
    from pipeline.requirements import PATIENCE

    os.environ["PYSPARK_PYTHON"] = worker_python()
    builder = SparkSession.builder.master("local[2]").appName("dledger tests")
    for key, value in {**FAST, **PATIENCE}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    pipeline.register(session)
    gateway = session.sparkContext._gateway
    assert gateway is not None
    yield session
    session.stop()
    # Its JVM ends when its input does. At the end of this process it would outlive it for a moment,
    # and the gate would find a process that a layer has left.
    gateway.shutdown()
    jvm = gateway.proc
    jvm.stdin.close()
    jvm.wait(limit(60))
