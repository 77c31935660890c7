"""A disk that is full or may not be written to, under a whole node."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.protocol.frames import Frame
from tests.waiting import wait_until

from .conftest import MESSAGES, TOPIC, body_of
from .frames import RawClient, pull_fields, raw, send_fields
from .node_process import NodeProcess

FAILED = 1
UNKNOWN = "were known to be committed"
DISK_SIZE = 16 << 20


def mount(*arguments: str) -> None:
    """Or skip: without root, or in a container that may not mount."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not here: mounting is not allowed ({done.stderr.strip()})")


@contextlib.contextmanager
def unmounted(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True)


@pytest.fixture
def small_disk(recorded: NodeProcess, tmp_path: Path, free_address: str) -> Iterator[NodeProcess]:
    """A copy of the recorded node on a file system of 16 MiB."""
    node = NodeProcess(tmp_path / "n0", free_address)
    node.root.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", f"size={DISK_SIZE}", "dledger-test", str(node.root))
    with unmounted(node.root):
        subprocess.run(
            ["cp", "-r", "--sparse=always", f"{recorded.root}/.", str(node.root)], check=True
        )
        yield node


def fill(node: NodeProcess, left: int) -> None:
    """Once the node has made the files that it makes ahead: they would want the same room."""
    free, before = shutil.disk_usage(node.root).free, -1
    while free != before:
        time.sleep(0.5)
        free, before = shutil.disk_usage(node.root).free, free
    with (node.root / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - left)


def readable(client: RawClient, count: int) -> list[int]:
    """Numbers of the messages 0 to count - 1 that a pull gives back."""
    return [
        number
        for number in range(count)
        if body_of(number) in client.ask(11, pull_fields(TOPIC, 0, number, maxMsgNums=1)).body
    ]


def test_no_room_for_the_next_file_refuses_producers_until_there_is_and_loses_nothing(
    small_disk: NodeProcess,
) -> None:
    node = small_disk
    fill(node, 3 << 19)
    acknowledged, remark = MESSAGES, ""
    with node.running("--set", "broker.disk_full_ratio=1.0") as process, raw(node.client) as client:

        def send() -> bool:
            nonlocal acknowledged, remark
            answer = client.ask(310, send_fields(TOPIC), body_of(acknowledged))
            acknowledged += answer.code == 0
            remark = answer.remark or ""
            return answer.code == 0

        while acknowledged < MESSAGES + 60 and send():
            pass
        assert MESSAGES < acknowledged < MESSAGES + 60
        if UNKNOWN in remark:  # it let go of the lead with this one under way
            acknowledged += readable(client, acknowledged + 1)[-1:] == [acknowledged]
        else:
            assert "No space left on device" in remark
        assert process.poll() is None, node.output()
        assert readable(client, acknowledged) == list(range(acknowledged))
        (node.root / "filler").unlink()
        wait_until(send, "a node that takes messages again")
        assert not remark
    assert "Traceback" not in node.output()
    with node.running(), raw(node.client) as client:
        assert readable(client, acknowledged) == list(range(acknowledged))


def test_above_the_water_mark_producers_are_refused_and_consumers_served(
    small_disk: NodeProcess,
) -> None:
    node = small_disk
    with node.running(), raw(node.client) as client:
        fill(node, DISK_SIZE // 20)

        def answer() -> Frame:
            return client.ask(310, send_fields(TOPIC, 1), b"x")

        refused = wait_until(lambda: (one := answer()).code and one, "a refusal")
        assert refused.code == 14
        said = refused.remark or ""
        assert re.search(r"the disk is 9\d% full .* above 90%; free some space", said)
        assert readable(client, MESSAGES) == list(range(MESSAGES))
        (node.root / "filler").unlink()
        wait_until(lambda: answer().code == 0, "a node that takes messages again")


def test_the_first_start_on_a_full_disk_says_what_is_missing_and_hinders_no_later_one(
    tmp_path: Path, free_address: str
) -> None:
    node = NodeProcess(tmp_path / "n0", free_address)
    node.root.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=128k", "dledger-test", str(node.root))
    with unmounted(node.root):
        for flags in (("--format",), ()):
            ended = node.fails(*flags)
            assert ended.code == FAILED, ended.text
            assert f"{node.log}/data/" in ended.sentence
            assert "no space for the log's first file, which takes 1 MiB" in ended.sentence
            assert "free space on that disk" in ended.sentence
            assert "Traceback" not in ended.text
        mount("-o", f"remount,size={DISK_SIZE}", str(node.root))
        with node.running(), raw(node.client) as client:
            assert client.ask(310, send_fields(TOPIC), body_of(0)).code == 0


def test_a_folder_that_cannot_be_written_to(node: NodeProcess) -> None:
    before = node.hashes(node.root)
    mount("--bind", str(node.root), str(node.root))
    with unmounted(node.root):
        mount("-o", "remount,bind,ro", str(node.root))
        ended = node.fails()
    assert ended.code == FAILED, ended.text
    assert str(node.root) in ended.sentence
    assert re.search("[Rr]ead-only", ended.sentence), ended.text
    assert "Traceback" not in ended.text
    assert node.hashes(node.root) == before


def fill_up(node: NodeProcess) -> None:
    """To the last block."""
    fill(node, 0)
    with (node.root / "filler").open("ab") as file, contextlib.suppress(OSError):
        while True:  # until the disk refuses
            os.write(file.fileno(), bytes(4096))
    assert shutil.disk_usage(node.root).free == 0


def test_a_disk_filled_to_the_last_block_takes_no_queue_down_and_loses_nothing(
    small_disk: NodeProcess,
) -> None:
    """The log has blocks ahead; a queue without messages has none, and needs one."""
    node = small_disk
    acknowledged: list[tuple[str, int, int]] = []
    unused = iter([(f"topic-{number}", queue) for queue in (1, 2, 3) for number in range(5)])
    full = "--set", "broker.disk_full_ratio=1.0"

    def send(client: RawClient, topic: str, queue: int = 0) -> str:
        """One message with its number as the body; what is said when it is refused."""
        answer = client.ask(310, send_fields(topic, queue), b"m%d" % len(acknowledged))
        if answer.code == 0:
            acknowledged.append((topic, queue, int(answer.ext["queueOffset"])))
        return answer.remark or "" if answer.code else ""

    def lost(client: RawClient) -> list[int]:
        return [
            number
            for number, place in enumerate(acknowledged)
            if b"m%d" % number not in client.ask(11, pull_fields(*place, maxMsgNums=1)).body
        ]

    with node.running(*full) as process, raw(node.client) as client:
        for number in range(5):
            assert not send(client, f"topic-{number}")
        shown = len(acknowledged)
        assert not lost(client)
        fill_up(node)
        told = wait_until(lambda: send(client, *next(unused, ("topic-0", 1))), "a refusal")
        assert "No space left on device" in told
        assert "free some space" in told
        assert all(number >= shown for number in lost(client)), "reads go on"
        assert readable(client, 3) == [0, 1, 2]
        assert process.poll() is None, node.output()
        assert "no space for queues and key index" in node.output()
        (node.root / "filler").unlink()
        wait_until(lambda: not send(client, "topic-0"), "a node that takes messages again")
        assert not lost(client)
        fill_up(node)
        process.kill()
        process.wait()
    assert "Traceback" not in node.output()
    assert shutil.disk_usage(node.root).free == 0
    with node.running(*full) as process, raw(node.client) as client:
        assert readable(client, MESSAGES) == list(range(MESSAGES)), "a start needs no room"
        (node.root / "filler").unlink()
        wait_until(lambda: not send(client, "restarted"), "a node that takes messages again")
        assert not lost(client)
        assert process.poll() is None, node.output()
    with node.running(*full), raw(node.client) as client:
        assert not lost(client)
        assert readable(client, MESSAGES) == list(range(MESSAGES))
