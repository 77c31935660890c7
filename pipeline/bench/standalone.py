"""A standalone Spark cluster of this machine's own: a master and a worker, as processes.

It has the environment of this process, and an address that is the machine's own. Deployment over
several machines is the subject of docs/spark-cluster.md, not of this.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipeline.connect_first import worker_python
from pipeline.requirements import check_java, check_packages

HOST = "127.0.0.1"
START_SECONDS_MAX = 600.0  # of the master and the worker, each; a crowded machine takes minutes
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass(frozen=True, slots=True)
class Cluster:
    """`address`: of the master, as Spark takes it; `worker`: number of the worker's process, the
    parent of all applications' executors."""

    address: str
    worker: int

    def executors(self, application: str) -> list[psutil.Process]:
        """All processes of an application's executors: their JVMs, and Python's below them."""
        found: list[psutil.Process] = []
        for process in psutil.Process(self.worker).children():
            with contextlib.suppress(psutil.Error):  # it may end meanwhile
                if application in process.cmdline():
                    found += [process, *process.children(recursive=True)]
        return found


@contextlib.contextmanager
def standalone_cluster(folder: Path, slots: int, memory: str) -> Iterator[Cluster]:
    """A cluster with a worker of `slots` and `memory` (as Spark writes it: "4g"); it works in
    `folder`, and no process of it is left at the end.

    Raises SparkMissing; RuntimeError when a process does not start.
    """
    check_packages()
    check_java()
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        words = (f"{deploy}.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        master = stack.enter_context(_daemon(folder, "master", *words))
        address = _said(master, folder / "master.log", _STARTED)
        size = ("-c", str(slots), "-m", memory, "-d", str(folder / "work"))
        more = ("--host", HOST, "--webui-port", "0", *size, address)
        worker = stack.enter_context(_daemon(folder, "worker", f"{deploy}.worker.Worker", *more))
        _said(worker, folder / "worker.log", re.compile("(Successfully registered)"))
        yield Cluster(address, worker.pid)


@contextlib.contextmanager
def _daemon(folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": worker_python(),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
    }
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a process and all that it started; its pipes are closed."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(family, timeout=10)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _said(process: subprocess.Popen[bytes], log: Path, wanted: re.Pattern[str]) -> str:
    """The first group of a line that the process is to write. Raises RuntimeError."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        found = wanted.search(log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"a daemon of Spark did not start: {log.read_text()[-2000:]}")
