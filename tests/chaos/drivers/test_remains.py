"""What a killed run leaves is taken away by the next; what belongs to a living one is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaos.drivers import loop_disk, processes, remains

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
#: A run: two nodes, one stopped and one frozen where that can be, and a disk where there are loops.
RUN = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from chaos.drivers import loop_disk, processes, remains

remains.VARIABLE = sys.argv[2]

def node():
    environment = {**os.environ, remains.VARIABLE: remains.owner()}
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    return subprocess.Popen(command, env=environment, start_new_session=True)

stopped, frozen, group = node(), node(), None
stopped.send_signal(signal.SIGSTOP)
if processes.freezer() is not None:
    group = remains.group_of(processes.FREEZER, frozen.pid)
    group.mkdir()
    (group / "cgroup.procs").write_text(str(frozen.pid))
    (group / "freezer.state").write_text("FROZEN")
if not loop_disk.why_not():
    folder = Path(sys.argv[1])
    loop_disk.LoopDisks(folder / "disks", {"n0": folder / "a node's data"}).__enter__()
print(json.dumps([stopped.pid, frozen.pid, str(group or "")]), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> str:
    """Of this test alone: live runs of other tests sweep, too."""
    name = f"DLEDGER_TEST_OWNER_{os.getpid()}"
    monkeypatch.setattr(remains, "VARIABLE", name)
    return name


@pytest.fixture
def run(variable: str, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int], str]]:
    """A run that has begun: its process, its nodes, its group."""
    command = (sys.executable, "-c", RUN, str(tmp_path), variable)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    *nodes, group = json.loads(process.stdout.readline())
    yield process, nodes, group
    process.kill()
    process.wait()
    process.stdout.close()
    remains.sweep()


def mounts(folder: Path) -> list[str]:
    """Mount points below a folder, as the kernel writes them."""
    rows = remains.MOUNTS.read_text().splitlines()
    return [row.split()[1] for row in rows if str(folder) in row]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_killed_run_left_is_taken_away(
    run: tuple[subprocess.Popen[str], list[int], str], tmp_path: Path
) -> None:
    process, nodes, group = run
    process.kill()
    process.wait()
    assert all(alive(node) for node in nodes), "nobody else takes them away"
    told = remains.sweep()
    assert not any(alive(node) for node in nodes)
    assert not group or not Path(group).exists()
    assert mounts(tmp_path) == []
    assert {f"process {node} of a node" for node in nodes} <= set(told)


def test_a_living_run_keeps_what_it_has(
    run: tuple[subprocess.Popen[str], list[int], str], tmp_path: Path
) -> None:
    _, nodes, group = run
    remains.sweep()
    assert all(alive(node) for node in nodes)
    assert not group or Path(group).exists()
    assert bool(mounts(tmp_path)) == (not loop_disk.why_not())


def test_an_owner_is_told_by_its_birth_too() -> None:
    """The number of a run that is gone may be another process's by now."""
    mine = json.loads(remains.owner())
    later = json.dumps({**mine, "born": "before"})
    with subprocess.Popen(SLEEPS, env={**os.environ, remains.VARIABLE: later}) as node:
        try:
            assert f"process {node.pid} of a node" in remains.sweep()
        finally:
            node.send_signal(signal.SIGKILL)


def test_a_run_in_a_container_is_not_judged_by_our_process_numbers(variable: str) -> None:
    """Its nodes are seen from outside, and the number of its process is another one here."""
    elsewhere = json.dumps({**json.loads(remains.owner()), "born": "before", "world": 1})
    with subprocess.Popen(SLEEPS, env={**os.environ, variable: elsewhere}) as node:
        try:
            remains.sweep()
            assert node.poll() is None
        finally:
            node.kill()


@pytest.mark.parametrize("signed", ["", "nonsense", "[]", '{"pid": 1}', '{"pid": "x", "born": ""}'])
def test_what_nobody_signed_is_not_ours(signed: str) -> None:
    with subprocess.Popen(SLEEPS, env={**os.environ, remains.VARIABLE: signed}) as node:
        try:
            remains.sweep()
            assert node.poll() is None
        finally:
            node.kill()


def test_groups_are_named_by_the_run_and_the_node() -> None:
    assert remains.group_of(processes.FREEZER, 12).name == f"dledger-chaos-{os.getpid()}-12"
