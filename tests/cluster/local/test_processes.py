"""The launcher knows its own children and nobody else's."""

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

from cluster.local import admin, processes
from cluster.local.profile import NAMESERVER, Member
from tests.waiting import wait_until


@pytest.fixture
def member(free_address: str) -> Member:
    return Member("ns", NAMESERVER, f"{free_address}:9876")


@pytest.fixture
def folder(tmp_path: Path, member: Member) -> Iterator[Path]:
    """A folder with a running name server."""
    path = tmp_path / "ns"
    arguments = ["cluster.local.nameserver_main", "--listen", member.client]
    processes.start(path, arguments, tied=True)
    wait_until(lambda: admin.is_ready(member, None), "a node that is ready")
    yield path
    processes.stop([path])


def test_stop_asks_and_the_process_ends_cleanly(folder: Path, member: Member) -> None:
    assert processes.running(folder) is not None
    assert processes.stop([folder]) == []
    assert processes.running(folder) is None
    assert not admin.is_ready(member, None)
    assert "stopping" in processes.log_tail(folder)


def test_a_frozen_process_can_be_stopped(folder: Path) -> None:
    assert processes.send(folder, signal.SIGSTOP)
    assert processes.stop([folder]) == []
    assert processes.running(folder) is None


def test_a_clock_that_is_set_does_not_make_our_process_a_stranger(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel derives the time of day of a start from the clock of now."""
    told = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: told(self) + 3600.0)
    assert processes.running(folder) is not None
    processes.kill([folder])
    assert processes.running(folder) is None


def test_kill_is_waited_for(folder: Path) -> None:
    found = processes.known(folder)
    assert found is not None
    processes.kill([folder])
    assert not psutil.pid_exists(found.pid) or found.process() is None


def test_a_process_id_that_was_given_again_is_a_stranger(folder: Path) -> None:
    """A stale file names a living process of somebody else: it is left alone."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        born = processes.ProcessId.of(stranger.pid).born + "0"
        stale = folder.parent / "stale"
        stale.mkdir()
        (stale / "process.json").write_text(json.dumps({"pid": stranger.pid, "born": born}))
        assert processes.running(stale) is None
        assert not processes.send(stale, signal.SIGKILL)
        processes.kill([stale])
        assert processes.stop([stale]) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"pid": "x", "born": "b 1"}', '{"pid": 1}', "not json"]
)
def test_a_damaged_file_means_not_running(tmp_path: Path, text: str) -> None:
    (tmp_path / "process.json").write_text(text)
    assert processes.running(tmp_path) is None


def test_a_tied_child_ends_with_its_parent_even_when_that_is_killed(
    tmp_path: Path, member: Member
) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cluster.local import processes;"
        "processes.start(Path(sys.argv[1]), "
        "['cluster.local.nameserver_main', '--listen', sys.argv[2]], tied=True); time.sleep(60)"
    )
    folder = tmp_path / "ns"
    parent = subprocess.Popen([sys.executable, "-c", code, str(folder), member.client])
    try:
        wait_until(lambda: admin.is_ready(member, None), "a node that is ready")
        os.kill(parent.pid, signal.SIGKILL)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: processes.running(folder) is None, "the end of the process")


def test_holder_of_a_port_is_named(folder: Path, member: Member) -> None:
    found = processes.known(folder)
    assert found is not None
    assert f"process {found.pid}" in processes.holder_of(member.client)


def test_a_server_that_cannot_start_says_why_in_its_last_line(
    folder: Path, member: Member, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    processes.start(second, ["cluster.local.nameserver_main", "--listen", member.client], tied=True)
    wait_until(lambda: processes.running(second) is None, "the end of the process")
    assert "address already in use" in processes.log_tail(second).splitlines()[-1]
