"""One Kafka broker that is its own controller (KRaft), for as long as a run lasts."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pipeline.bench.kafka.installation import KafkaMissing

PORT, CONTROLLER_PORT = 9092, 9093
START_SECONDS_MAX = 60.0
HEAP = "-Xmx512m"
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@contextlib.contextmanager
def kafka_broker(jars: Path, folder: Path, host: str, partitions: int) -> Iterator[str]:
    """host:port of a broker that makes topics of `partitions` when they are first written to.

    Raises KafkaMissing when it does not come up.
    """
    folder.mkdir(parents=True)
    file = folder / "server.properties"
    file.write_text(
        SETTINGS.format(
            host=host,
            port=PORT,
            controller=CONTROLLER_PORT,
            folder=folder,
            partitions=partitions,
        )
    )
    program = ["java", HEAP, "-XX:+UseG1GC", "-cp", f"{jars}/*"]
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode()
    _format([*program, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(file)])
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen([*program, "kafka.Kafka", str(file)], stdout=log, stderr=log)
    try:
        _until_listening(process, host, folder)
        yield f"{host}:{PORT}"
    finally:
        process.kill()
        process.wait()


def _format(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS_MAX)
    if done.returncode:
        raise KafkaMissing(f"Kafka's folder cannot be made: {(done.stdout + done.stderr)[-500:]}")


def _until_listening(process: subprocess.Popen[bytes], host: str, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, PORT), 1):
            return
        time.sleep(0.05)
    said = (folder / "broker.log").read_text(errors="replace")[-500:]
    raise KafkaMissing(f"Kafka's broker does not come up: {said}")
