"""An ordered consumer of ours and a stock Java one in one group, while members come and go by kill.

The members write down what they handle, in files that they lock for it (Orderly.java), so nothing
here compares clocks. Bars: no queue is in two hands at once; every offset comes, none is passed
over; positions go back only behind a member that was killed, whose last ones were not stored, or
behind a Java one that shut down, which unlocks its queues before it stores its positions.

Locks end after 3 s instead of 60 here, and members trust them for half of that, as with the real
numbers: the Java client by its own settings.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.client import blocking
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from tests.waiting import RAFT_TIMINGS, limit, wait_until

from ..conftest import SMALL_FILES, _mistakes
from .harness import toolchains
from .harness.short_locks import RENEW_SECONDS, TRUSTED_SECONDS

VERSION = "5.3.3"
TOPIC, GROUP = "Together", "G_Together"
QUEUES = 4
PAUSE_SECONDS = 0.05  # between two messages of a queue
OPTIONS = (
    f"-Drocketmq.client.rebalance.lockInterval={RENEW_SECONDS * 1000:.0f}",
    f"-Drocketmq.client.rebalance.lockMaxLiveTime={TRUSTED_SECONDS * 1000:.0f}",
)


class Members:
    """Processes of one group, and what they wrote into the folder."""

    def __init__(self, nameserver: str, folder: Path) -> None:
        self._nameserver, self.folder = nameserver, folder
        folder.mkdir()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """One whose name begins with "java" is the stock client."""
        home = self.folder / f"home-{name}"
        home.mkdir()
        if name.startswith("java"):
            java = toolchains.java(VERSION)
            command = [*java, f"-Duser.home={home}", *OPTIONS, "interop.Orderly"]
        else:
            command = [sys.executable, "-m", "tests.interop.harness.ordered_member"]
        with (home / "said").open("wb") as said:
            self._running[name] = subprocess.Popen(
                [*command, self._nameserver, TOPIC, GROUP, str(self.folder), name],
                cwd=toolchains.ROOT,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
            )

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def stop(self, name: str) -> None:
        """It leaves in order."""
        process = self._running.pop(name)
        process.communicate(timeout=limit(30))  # its input ends
        assert process.returncode == 0, self._said(name)

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)

    def lines(self, queue: int) -> list[tuple[str, int]]:
        """Who handled which offset of a queue, in their order."""
        path = self.folder / f"queue-{queue}.log"
        rows = path.read_text().splitlines() if path.exists() else []
        return [(name, int(offset)) for name, offset, _ in (row.split() for row in rows)]

    def labels(self, queue: int) -> dict[int, str]:
        rows = (self.folder / f"queue-{queue}.log").read_text().splitlines()
        return {int(offset): label for _, offset, label in (row.split() for row in rows)}

    def holders(self) -> list[str]:
        """Who handled the last message of each queue."""
        return [lines[-1][0] if (lines := self.lines(q)) else "" for q in range(QUEUES)]

    def wait_for(self, *names: str) -> None:
        """Wait until these hold the queues, all of them, and nobody else does."""
        wait_until(lambda: self._are_held(names), f"queues in the hands of {names}")

    def _are_held(self, names: tuple[str, ...]) -> bool:
        for name, process in self._running.items():
            assert process.poll() is None, self._said(name)
        return set(self.holders()) == set(names)

    def _said(self, name: str) -> str:
        return f"{name} ended: " + (self.folder / f"home-{name}" / "said").read_text()[-4000:]


class Sender:
    """Numbers each queue's messages, from a thread, until it is stopped."""

    def __init__(self, nameserver: str, folder: Path) -> None:
        self.counts = [0] * QUEUES
        self._nameserver, self._folder = nameserver, folder
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
        for queue in range(QUEUES):
            self._told(queue, sys.maxsize)  # no handler waits for more

    def _told(self, queue: int, count: int) -> None:
        made = self._folder / f"sent-{queue}.new"
        made.write_text(str(count))
        made.replace(self._folder / f"sent-{queue}")

    def _run(self) -> None:
        with blocking.connect(self._nameserver) as mq, mq.producer() as producer:
            while not self._end.wait(PAUSE_SECONDS):
                for queue in range(QUEUES):
                    label = f"{queue}-{self.counts[queue]}"
                    receipt = producer.send(
                        TOPIC, label.encode(), properties={"label": label}, queue_id=queue
                    )
                    assert receipt.queue_offset == self.counts[queue]
                    self.counts[queue] += 1
                    self._told(queue, self.counts[queue])


@contextlib.contextmanager
def short_locks(root: Path, hosts: list[str]) -> Iterator[LocalCluster]:
    members = plan.plan(len(hosts) - 1, hosts)
    cluster = LocalCluster.create(root, members, SMALL_FILES | RAFT_TIMINGS, tied=True)
    cluster.node_module = "tests.interop.harness.short_locks"
    try:
        cluster.up()
        yield cluster
        assert not _mistakes(cluster)
    finally:
        cluster.down()


@pytest.mark.long
@pytest.mark.timeout(600)  # the first run builds the Java programs
def test_ordered_members_of_two_kinds_never_hold_one_queue(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    try:
        toolchains.java(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    with (
        short_locks(tmp_path / "cluster", [new_address() for _ in range(4)]) as local,
        contextlib.closing(Members(local.nameserver, tmp_path / "members")) as members,
    ):
        with blocking.connect(local.nameserver) as mq:
            mq.admin().create_topic(TOPIC, QUEUES)
        with Sender(local.nameserver, members.folder) as sender:
            members.start("ours-1")
            members.wait_for("ours-1")
            members.start("java-1")
            members.wait_for("ours-1", "java-1")
            members.kill("java-1")
            members.wait_for("ours-1")
            members.start("java-2")
            members.wait_for("ours-1", "java-2")
            members.kill("ours-1")
            members.wait_for("java-2")
            members.start("ours-2")
            members.wait_for("java-2", "ours-2")
            members.stop("java-2")
            members.wait_for("ours-2")
            sender.stop()
        counts = sender.counts
        wait_until(
            lambda: [members.lines(q)[-1][1] + 1 for q in range(QUEUES)] == counts,
            "everything handled",
        )
        members.stop("ours-2")
        together = members.folder / "together"
        assert not together.exists(), together.read_text()
        for queue in range(QUEUES):
            check_order(members.lines(queue), counts[queue], {"java-1", "ours-1", "java-2"})
            wanted = {offset: f"{queue}-{offset}" for offset in range(counts[queue])}
            assert members.labels(queue) == wanted


def check_order(lines: list[tuple[str, int]], count: int, repeated: set[str]) -> None:
    """Every offset below `count`, in order; back only behind one that may be `repeated`."""
    reached, last, before = -1, -1, ""
    for name, offset in lines:
        is_again = offset <= reached and name != before and before in repeated
        assert offset == last + 1 or is_again, f"{name} handled {offset} after {before} {last}"
        reached, last, before = max(reached, offset), offset, name
    assert reached == count - 1


@pytest.mark.parametrize(
    ("lines", "good"),
    [
        ([("a", 0), ("a", 1), ("b", 2)], True),
        ([("k", 0), ("k", 1), ("b", 0), ("b", 1), ("b", 2)], True),
        ([("a", 0), ("a", 2)], False),
        ([("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)], False),
        ([("a", 0), ("a", 1), ("a", 1), ("a", 2)], False),
        ([("a", 0), ("a", 1)], False),
        ([("k", 0), ("k", 1), ("b", 0), ("b", 2)], False),
    ],
)
def test_what_counts_as_in_order(lines: list[tuple[str, int]], good: bool) -> None:
    if good:
        check_order(lines, 3, {"k"})
    else:
        with pytest.raises(AssertionError):
            check_order(lines, 3, {"k"})
