"""Kafka brokers that are their own controllers (KRaft), for as long as a run lasts."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.bench.kafka.installation import KafkaMissing

PORT, CONTROLLER_PORT = 9092, 9093
START_SECONDS_MAX = 180.0  # on a machine that is busy with others
HEAP = "-Xmx320m"
#: Kafka's own defaults otherwise: a broker answers when the page cache of the replicas in sync has
#: the records, and the disk follows when the system likes.
SETTINGS = """\
process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
min.insync.replicas={in_sync}
"""


def in_sync_min(nodes: int) -> int:
    """A majority, as ours waits for one."""
    return nodes // 2 + 1


@contextlib.contextmanager
def kafka_brokers(
    jars: Path, folder: Path, hosts: Sequence[str], heap: str = HEAP
) -> Iterator[str]:
    """Bootstrap servers of one broker on each host; no topic is made by itself.

    `heap`: the option that gives each JVM its memory.

    Raises KafkaMissing when they do not come up.
    """
    voters = ",".join(f"{at}@{host}:{CONTROLLER_PORT}" for at, host in enumerate(hosts, 1))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode()
    program = ["java", heap, "-XX:+UseG1GC", "-cp", f"{jars}/*"]
    running: list[tuple[subprocess.Popen[bytes], str, Path]] = []
    try:
        for number, host in enumerate(hosts, 1):
            home = folder / str(number)
            home.mkdir(parents=True)
            file = home / "server.properties"
            file.write_text(_settings(number, host, home, voters, len(hosts)))
            form = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)]
            _format([*program, *form])
            with (home / "broker.log").open("wb") as log:
                command = [*program, "kafka.Kafka", str(file)]
                process = subprocess.Popen(command, stdout=log, stderr=log)
            running.append((process, host, home))
        for process, host, home in running:
            _until_listening(process, host, home)
        yield ",".join(f"{host}:{PORT}" for host in hosts)
    finally:
        for process, *_ in running:
            process.kill()
        for process, *_ in running:
            process.wait()


def make_topics(jvm: Any, servers: str, names: Sequence[str], partitions: int, nodes: int) -> None:
    """Topics with a replica on each node, made by Kafka's client in the JVM of a Spark session.

    Raises KafkaMissing when the brokers do not make them in time.
    """
    admin = _admin(jvm, servers)
    topics = jvm.java.util.ArrayList()
    for name in names:
        topics.add(jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, nodes))
    deadline = time.monotonic() + START_SECONDS_MAX
    try:
        while True:  # ends when they are there, or with the deadline
            try:
                admin.createTopics(topics).all().get()
                return
            except Exception as error:  # of the JVM: too few brokers have registered yet
                if time.monotonic() > deadline:
                    raise KafkaMissing(f"Kafka's topics cannot be made: {error}") from None
            time.sleep(0.2)
    finally:
        admin.close()


def replicas_in_sync(jvm: Any, servers: str, topic: str) -> list[int]:
    """How many replicas of each partition are in sync."""
    admin = _admin(jvm, servers)
    try:
        told = admin.describeTopics(jvm.java.util.List.of(topic)).allTopicNames().get()
        return [part.isr().size() for part in told.get(topic).partitions()]
    finally:
        admin.close()


def _admin(jvm: Any, servers: str) -> Any:
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", servers)
    return jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)


def _settings(number: int, host: str, home: Path, voters: str, nodes: int) -> str:
    return SETTINGS.format(
        number=number,
        host=host,
        voters=voters,
        port=PORT,
        controller=CONTROLLER_PORT,
        folder=home,
        replicas=nodes,
        in_sync=in_sync_min(nodes),
    )


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS_MAX)
    if done.returncode:
        raise KafkaMissing(f"Kafka's folder cannot be made: {(done.stdout + done.stderr)[-500:]}")


def _until_listening(process: subprocess.Popen[bytes], host: str, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, PORT), 1):
            return
        time.sleep(0.05)
    said = (home / "broker.log").read_text(errors="replace")[-500:]
    raise KafkaMissing(f"a broker of Kafka does not come up: {said}")
