"""The client of each subject, a program that takes an order a line and answers in JSON.

    open ADDRESS TOPIC QUEUES            reach the servers, get one acknowledgement; {}
    send MODE TOPIC WINDOW SIZE MILLIS   WINDOW in flight; acked, failed, seconds, p50_ms, p99_ms
    fill TOPIC COUNT SIZE                COUNT messages with keys; the same
    consume MODE TOPIC COUNT             from the start; messages, bytes, seconds
    stop                                 the program ends

An answer has `error` when something failed. chaos/bench/orders.py lists modes; the others know
`single`, RocketMQ's `batches`. Seconds of `consume` run from the first message to the last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from pipeline.bench.kafka.installation import POMS
from tests.interop.harness import toolchains
from tests.peers.rocketmq_cluster import jars

HERE = Path(__file__).parent
ANSWER_SECONDS_MAX = 400.0
_JAVA = ("java", "-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-Dfile.encoding=UTF-8")


class LoadFailed(RuntimeError):
    """A program answered with an error, or ended; the text has its words."""


class Program:
    """One running client; its errors go to a file in `folder`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "client.log"
        with self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={
                    **os.environ,
                    "HOME": str(folder),
                    "JAVA_TOOL_OPTIONS": f"-Duser.home={folder}",
                },
            )
        try:
            self.process = psutil.Process(self._process.pid)
            self._answer("start")
        except BaseException:  # also an interrupt: no caller has it yet, to end it
            self.close()
            raise

    def ask(self, *words: object) -> dict[str, Any]:
        """Give one order. Raises LoadFailed when it fails or takes too long."""
        order = " ".join(str(word) for word in words)
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()
        return self._answer(order)

    def _answer(self, order: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        watch = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        watch.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            said = self._log.read_text(errors="replace")[-800:]
            raise LoadFailed(f"the client ended at {order!r}: {said}")
        found: dict[str, Any] = json.loads(line)
        if found.get("error") and not found.get("acked"):
            raise LoadFailed(f"{order}: {found['error']}")
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def ours() -> list[str]:
    """Our own client."""
    return [sys.executable, "-m", "chaos.bench.orders"]


def rocketmq() -> list[str]:
    """RocketMQ's own client in Java. Raises toolchains.Missing."""
    return _java("rocketmq", "peers.RocketMqLoad", jars())


def kafka(*arguments: str) -> list[str]:
    """Kafka's own client in Java. Raises toolchains.Missing."""
    return [*_java("kafka", "peers.KafkaLoad", kafka_jars()), *arguments]


def nats() -> list[str]:
    """The client of JetStream in Go. Raises toolchains.Missing."""
    return [str(nats_folder() / "nats")]


def etcd() -> list[str]:
    """A client of etcd in Go. Raises toolchains.Missing."""
    return [str(etcd_folder() / "etcd")]


def at_once() -> list[str]:
    """RocketMQ's own client in Java; the server that answers it is built, too.

    Raises toolchains.Missing.
    """
    answering_program()
    return rocketmq()


def kafka_jars() -> Path:
    """The folder of Kafka's broker and client, made when it is not there."""
    toolchains.need("java", "mvn")
    pom = POMS["broker"]
    return toolchains.built("kafka", [pom], "", lambda to: toolchains.copy_jars(pom, "", to))


def nats_folder() -> Path:
    """The folder of `nats` and `nats-server`, made when it is not there."""
    toolchains.need("go")
    source = HERE / "go" / "nats"

    def build(folder: Path) -> None:
        toolchains.go_build(source, folder / "nats", ".")
        toolchains.go_build(source, folder / "nats-server", "github.com/nats-io/nats-server/v2")

    return toolchains.built("nats", list(source.iterdir()), "", build)


def etcd_folder() -> Path:
    """The folder of `etcd`, the client, and `server`, made when it is not there."""
    toolchains.need("go")
    source = HERE / "go" / "etcd"

    def build(folder: Path) -> None:
        toolchains.go_build(source, folder / "etcd", ".")
        toolchains.go_build(source, folder / "server", "./server")

    sources = [one for one in source.rglob("*") if one.is_file()]
    return toolchains.built("etcd", sources, "", build)


def answering_program() -> Path:
    """The server that answers at once, made when it is not there."""
    toolchains.need("go")
    source = HERE / "go" / "answering"

    def build(folder: Path) -> None:
        toolchains.go_build(source, folder / "answering", ".")

    return toolchains.built("answering", list(source.iterdir()), "", build) / "answering"


def _java(name: str, main: str, parts: Path) -> list[str]:
    sources = [*(HERE / "java" / "shared").rglob("*.java"), *(HERE / "java" / name).rglob("*.java")]
    classes = toolchains.built(
        f"peers-{name}", sources, "", lambda to: toolchains.compile_java(sources, parts, to)
    )
    return [*_JAVA, "-cp", f"{classes}:{parts}/*", main]
