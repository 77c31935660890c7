"""A standalone Spark cluster, deployed as docs/spark-cluster.md prints it.

    Deployment     scripts of the page, environments of nodes, one packed environment
    Standalone     a master and two workers as processes; each can be killed and started again

No process has PYTHONPATH or runs in the checkout: what it imports, it has installed. Each worker
has an address of its own, since Spark runs a speculative copy of a task only on another host. Where
deployment is not the subject, all nodes share the environment of the tests, which is there already.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from scripts.spark_tests import OURS
from tests.docs.pages import blocks
from tests.waiting import limit, wait_until

ROOT = Path(__file__).resolve().parents[3]
PAGE = "docs/spark-cluster.md"
PORT = 7077
UV = shutil.which("uv") or str(ROOT / ".tools" / "uv" / "bin" / "uv")
#: Six JVMs start, none works for long: compiling well costs more than it saves.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
#: Stands in for pip where uv is: it links what its cache has, in seconds instead of minutes.
PIP_BY_UV = """#!/bin/sh
[ "$1 $3" = "--python install" ] || {{ echo "pip of the tests: $*" >&2; exit 2; }}
python=$2; shift 3
install="{uv} pip install -q --python $python -c {constraints}"
$install --offline "$@" 2>/dev/null || exec $install "$@"
"""


def script(title: str) -> str:
    """The script of the page that begins with the remark `title`."""
    (found,) = (
        block.text
        for block in blocks(PAGE)
        if block.language == "sh" and block.text.startswith(f"# {title}\n")
    )
    return found


class Deployment:
    """Runs scripts of the page in `folder`; environments below it are made once.

    `here` is the environment of the tests, which has all that a node's has.
    """

    here = Path(sys.prefix)

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._bin = folder / "bin"
        self._wheel: Path | None = None
        # uv would take what it unpacked from a folder of the same path before.
        self._wheels = folder / f"wheels-{time.time_ns()}"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """That of this process without its Python and Spark; uv keeps its cache."""
        ours = ("SPARK", "PYSPARK", "PYTHON", "VIRTUAL_ENV", "UV_COMPILE", "UV_PROJECT")
        kept = {key: text for key, text in os.environ.items() if not key.startswith(ours)}
        theirs = [part for part in kept["PATH"].split(os.pathsep) if str(ROOT) not in part]
        python = str(Path(sys.executable).resolve().parent)  # not that of an environment
        path = os.pathsep.join((str(self._bin), python, *theirs))
        wheels = {name: str(self._wheels) for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS")}
        return {**kept, **wheels, "PATH": path, "JAVA_TOOL_OPTIONS": QUICK_JAVA, **more}

    def run(self, title: str, more: Mapping[str, str], *words: str, cwd: Path | None = None) -> str:
        """Runs a script to its end; what it prints."""
        with self.start(title, more, *words, cwd=cwd, log=subprocess.PIPE) as process:
            out, error = process.communicate(timeout=limit(900))
        assert process.returncode == 0, f"{title}: {out}{error}"[-6000:]
        return str(out)

    def start(
        self,
        title: str,
        more: Mapping[str, str],
        *words: str,
        cwd: Path | None = None,
        log: IO[str] | int,
    ) -> subprocess.Popen[str]:
        """Starts a script; `log`: where both of its outputs go."""
        return subprocess.Popen(
            ["sh", "-eu", "-c", script(title), "sh", *words],
            cwd=cwd or self.folder,
            env=self.environment(more),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
        )

    def node(self, name: str) -> Path:
        """A node's environment by `pip install dledger[spark]`."""
        node = self.folder / name
        if not (node / "bin" / "dledger-spark-python").exists():
            self.run("environment of a node", {"NODE": str(node), "DLEDGER": str(self._dledger())})
        return node

    def pack(self) -> Path:
        """One environment, packed; the archive's path."""
        packed = self.folder / "dledger.tar.gz"
        if not packed.exists():
            where = {"NODE": str(self.folder / "packed"), "DLEDGER": str(self._dledger())}
            self.run("pack an environment", where)
        return packed

    def _dledger(self) -> Path:
        """The wheel of dledger, built from the checkout as it is, with those that it needs."""
        if self._wheel is None:
            self._bin.mkdir(exist_ok=True)
            uv = (UV, "build", "-q", "--wheel", "-o", str(self._wheels))
            pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(self._wheels))
            has_uv = Path(UV).exists()
            for source in (ROOT, *(ROOT / name for name in OURS)):
                build = (*(uv if has_uv else pip), str(source))
                done = subprocess.run(build, capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
            if has_uv:
                self._stand_in_for_pip()
            (self._wheel,) = self._wheels.glob("dledger-*.whl")
        return self._wheel

    def _stand_in_for_pip(self) -> None:
        """The versions of the lock file: those that the cache has."""
        constraints = self.folder / "constraints.txt"
        words = (
            *(UV, "export", "-q", "--frozen", "--project", str(ROOT), "--extra", "spark"),
            *("--no-emit-workspace", "--no-hashes", "--no-dev", "-o", str(constraints)),
        )
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        pip = self._bin / "pip"
        pip.write_text(PIP_BY_UV.format(uv=UV, constraints=constraints))
        pip.chmod(0o755)


@dataclass
class Standalone:
    """A master and two workers.

    `hosts`: of the master and the driver, then of each worker; `nodes`: their environments.
    """

    deployment: Deployment
    hosts: tuple[str, str, str]
    folder: Path
    nodes: Sequence[Path]

    def __post_init__(self) -> None:
        self._daemons: dict[int, subprocess.Popen[str]] = {}
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """As Spark takes it."""
        return f"spark://{self.hosts[0]}:{PORT}"

    @property
    def variables(self) -> dict[str, str]:
        """Those that the page names, for a driver."""
        return {
            "NODE": str(self.nodes[0]),
            "HOST": self.hosts[0],
            "MASTER": self.hosts[0],
            "STATE": str(self.folder / "state-0"),
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Standalone]:
        """All daemons are up; none is left at the end."""
        try:
            self.start(0)
            wait_until(self._listens, "the master listens", 120)
            for number in (1, 2):
                self.start(number)
            wait_until(self.has_workers, "both workers are registered", 120)
            yield self
        finally:
            for number in list(self._daemons):
                self.kill(number)

    def start(self, number: int) -> None:
        """0: the master; 1, 2: a worker."""
        state = self.folder / f"state-{number}"
        state.mkdir(exist_ok=True)
        node = {"NODE": str(self.nodes[number]), "HOST": self.hosts[number], "STATE": str(state)}
        title = "a worker" if number else "the master"
        with self.log(number).open("a") as log:
            self._daemons[number] = self.deployment.start(
                title, {**self.variables, **node}, cwd=state, log=log
            )

    def kill(self, number: int) -> None:
        """SIGKILL; a worker's executors go with it."""
        daemon = self._daemons.pop(number)
        kill_all(family(daemon.pid))
        daemon.wait(limit(20))

    def executors(self, *numbers: int) -> list[psutil.Process]:
        """All processes of the executors of these workers, of both without numbers."""
        workers = [self._daemons[number].pid for number in numbers or (1, 2)]
        return [process for pid in workers for process in family(pid)[:-1]]

    def launched(self, number: int) -> int:
        """How many executors a worker has started."""
        return self.log(number).read_text().count("Asked to launch executor")

    def recoveries(self) -> int:
        """How often a master that was started again has found its workers and jobs."""
        return self.log(0).read_text().count("Recovery complete")

    def log(self, number: int) -> Path:
        return self.folder / f"daemon-{number}.log"

    def has_workers(self) -> bool:
        return self.log(0).read_text().count("Registering worker") >= 2

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.hosts[0], PORT), 1):
            return True
        return False


def kill_all(processes: list[psutil.Process]) -> None:
    """SIGKILL; those that are gone are passed over."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=limit(10))


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started; none when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [*process.children(recursive=True), process]
    return []
