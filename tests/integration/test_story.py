"""An exception in what the log owns ends the node: a story, and an exit code that is not 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster.client import ProducerConfig, blocking
from cluster.errors import ClusterError
from cluster.local import plan, processes, stories
from cluster.local.launcher import LocalCluster
from tests.waiting import RAFT_TIMINGS, limit, wait_until

from ..conftest import SMALL_FILES


def test_a_mistake_in_apply_ends_the_process(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    members = plan.plan(1, [new_address() for _ in range(2)])
    cluster = LocalCluster.create(tmp_path / "c", members, SMALL_FILES | RAFT_TIMINGS, tied=True)
    cluster.node_module = "tests.integration.breaking_node"
    breaks = tmp_path / "break"
    cluster.environment["n0"] = {"BREAK_WHEN": str(breaks)}
    cluster.up()
    try:
        folder = cluster.folder("n0")
        running = processes.running(folder)
        assert running is not None
        child = processes._CHILDREN[running.pid]
        with blocking.connect(cluster.nameserver) as mq:
            mq.admin().create_topic("T", 1)
            config = ProducerConfig(delivery_timeout=limit(1.0))
            with mq.producer(config=config) as producer:
                producer.send("T", b"before")
                breaks.touch()
                try:
                    producer.send("T", b"what breaks it")
                except ClusterError:
                    pass
                else:
                    raise AssertionError("nobody applied it, so nobody may acknowledge it")
        wait_until(lambda: child.poll() is not None, "the process has ended")
        assert child.returncode not in (0, None)
        (story, *_) = stories.mistakes(folder)
        assert "ValueError: a mistake of the test" in story
        breaks.unlink()
        cluster.start("n0")
        cluster.wait_ready()
        with blocking.connect(cluster.nameserver) as mq, mq.reader("T") as reader:
            bodies = [message.body for _ in range(2) if (message := reader.receive(60.0))]
        assert bodies == [b"before", b"what breaks it"], "it was on disk, so it is applied now"
    finally:
        cluster.down()
