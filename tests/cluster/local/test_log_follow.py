"""A log that is followed while it rotates: each line once, in order, at whatever moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.log_follow import LogFollower
from cluster.local.node_log import numbered
from tests.waiting import limit, wait_until


def rotate(path: Path, files: int) -> None:
    """As a server does."""
    for number in reversed(range(files - 1)):
        if numbered(path, number).exists():
            numbered(path, number).replace(numbered(path, number + 1))
    path.touch()


@pytest.mark.parametrize("seed", range(20))
def test_each_line_comes_once_however_often_it_rotates_between_two_looks(
    tmp_path: Path, seed: int
) -> None:
    path, random = tmp_path / "log.txt", Random(seed)
    path.touch()
    follower, written, seen = LogFollower(path), "", ""
    for number in range(200):
        line = f"line {number}\n"
        with path.open("a") as file:
            file.write(line)
        written += line
        if random.random() < 0.3:
            rotate(path, files=100)
        if random.random() < 0.2:
            seen += follower.read()
    seen += follower.read()
    assert seen == written
    follower.close()


def test_what_was_deleted_before_it_was_read_is_left_out_and_the_rest_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("0\n")
    follower = LogFollower(path)
    for number in range(1, 6):
        rotate(path, files=3)
        path.write_text(f"{number}\n")
    assert follower.read() == "0\n3\n4\n5\n"
    follower.close()


def test_the_command_goes_on_after_a_rotation(tmp_path: Path) -> None:
    root = tmp_path / "cluster"
    cluster = LocalCluster.create(root, [plan.broker("n0", "127.0.0.1")])
    folder = cluster.folder("n0")
    folder.mkdir()
    path, printed = folder / "log.txt", tmp_path / "printed"
    path.write_text("first\n")
    with printed.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cluster.cli", "logs", "n0", "-f", "--root", str(root)],
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: "first" in printed.read_text(), "the first line")
        rotate(path, files=5)
        path.write_text("second\n")
        rotate(path, files=5)
        path.write_text("third\n")
        wait_until(lambda: "third" in printed.read_text(), "the last line")
        assert printed.read_text() == "first\nsecond\nthird\n"
    finally:
        process.terminate()
        process.wait(limit(10))
