"""`dledger consume -g`: however it ends, the group goes on behind what was printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.client import ConsumerConfig, blocking
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[2]


def start(local: LocalCluster, topic: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "cluster.cli", "consume", topic, "-g", f"{topic}-group"]
    return subprocess.Popen(
        [*command, *options, "-a", local.nameserver],
        bufsize=0,  # communicate() does not know of a buffer that readline() filled
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def printed(process: subprocess.Popen[bytes]) -> list[bytes]:
    out, errors = process.communicate(timeout=limit(60))
    assert b"Traceback" not in errors, errors
    return out.splitlines()


def fill(local: LocalCluster, topic: str, count: int, size: int = 10) -> list[bytes]:
    bodies = [b"%d-" % number + b"x" * size for number in range(count)]
    with blocking.connect(local.nameserver) as mq, mq.producer() as producer:
        for body in bodies:
            producer.send(topic, body)
    return sorted(bodies)


def test_one_message_at_a_time_goes_through_the_topic(local_cluster: LocalCluster) -> None:
    sent = fill(local_cluster, "one-by-one", 4)
    found = []
    for _ in sent:
        (line,) = printed(start(local_cluster, "one-by-one", "-n", "1"))
        found.append(line)
    assert sorted(found) == sent


def by_signal(number: signal.Signals) -> Callable[[subprocess.Popen[bytes]], list[bytes]]:
    def stop(process: subprocess.Popen[bytes]) -> list[bytes]:
        """It stands in a write that the pipe has no room for, which is done before it ends."""
        process.send_signal(number)
        return printed(process)

    return stop


@pytest.mark.parametrize(
    ("stop", "code"),
    [(by_signal(signal.SIGINT), 130), (by_signal(signal.SIGTERM), 143)],
    ids=["ctrl-c", "sigterm"],
)
def test_stopped_in_the_middle_nothing_is_lost_or_repeated(
    local_cluster: LocalCluster,
    stop: Callable[[subprocess.Popen[bytes]], list[bytes]],
    code: int,
) -> None:
    topic = f"stopped-{code}"
    sent = fill(local_cluster, topic, 40, size=10_000)
    process = start(local_cluster, topic)
    assert process.stdout is not None
    first = process.stdout.readline().rstrip(b"\n")
    before = [first, *stop(process)]
    assert process.returncode == code
    assert 0 < len(before) < len(sent)
    after = printed(start(local_cluster, topic, "-n", str(len(sent) - len(before))))
    assert sorted(before + after) == sent


def test_a_group_that_begins_at_the_end_finds_what_came_while_it_was_away(
    local_cluster: LocalCluster,
) -> None:
    topic = "from-last"
    fill(local_cluster, topic, 8)
    with blocking.connect(local_cluster.nameserver) as mq:
        config = ConsumerConfig(start="last")
        with mq.consumer(topic, group=f"{topic}-group", config=config) as consumer:
            while len(consumer.assigned) < 4:
                consumer.receive(0.01)
            assert consumer.receive(0.5) is None
    fill(local_cluster, topic, 4)
    assert len(printed(start(local_cluster, topic, "--from", "last", "-n", "4"))) == 4
