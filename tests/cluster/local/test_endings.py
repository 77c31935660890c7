"""How a process last ended is told: by who ended it, by itself, or by what can be concluded."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.commands.status import last_ends
from cluster.local import admin, endings, processes
from cluster.local.profile import NAMESERVER, Member
from tests.waiting import wait_until

BOOT = "0b5f"


@pytest.fixture
def folder(tmp_path: Path, free_address: str) -> Iterator[Path]:
    """A folder with a running name server."""
    path, member = tmp_path / "ns", Member("ns", NAMESERVER, f"{free_address}:9876")
    arguments = ["cluster.local.nameserver_main", "--listen", member.client]
    processes.start(path, arguments, tied=True)
    wait_until(lambda: admin.is_ready(member, None), "a node that is ready")
    yield path
    processes.stop([path])


def ending(folder: Path) -> endings.Ending:
    found = processes.last_end(folder)
    assert found is not None
    return found


def logs(folder: Path) -> tuple[str, str]:
    """Of the process, of the cluster."""
    return processes.log_tail(folder), (folder.parent / "cluster.log").read_text()


def test_a_kill_is_told_with_who_which_signal_and_why(folder: Path) -> None:
    assert processes.last_end(folder) is None, "it runs, and never ended"
    with endings.because("fault kill"), endings.because("a power cut"):
        processes.kill([folder])
    found = ending(folder)
    assert (found.how, found.why, found.over) == ("SIGKILL", "fault kill; a power cut", True)
    assert found.by == endings.ender()
    assert f"process {os.getpid()} (" in found.by
    for log in logs(folder):
        assert f"ns: SIGKILL to process {found.pid} by {found.by}: fault kill; a power cut" in log
    assert f"process {found.pid} started by {found.by}" in logs(folder)[1]
    assert processes.last_end(folder) == found, "looking changes nothing"


def test_who_is_asked_to_stop_says_how_it_ended(folder: Path) -> None:
    assert processes.stop([folder]) == []
    found = ending(folder)
    assert (found.how, found.by, found.why) == ("SIGTERM, exit code 0", endings.ender(), "")
    for log in logs(folder):
        assert f"SIGTERM to process {found.pid} by process {os.getpid()}" in log
        assert "ended with SIGTERM, exit code 0 by process" in log
    shown = list(last_ends([{"node": "ns", "last_end": {"sentence": found.sentence()}}]))
    assert shown == [f"ns: {found.sentence()}"]


def test_a_signal_of_a_stranger_is_told_as_far_as_it_is_known(folder: Path) -> None:
    process_id = processes.known(folder)
    assert process_id is not None
    os.kill(process_id.pid, signal.SIGTERM)
    wait_until(lambda: processes.running(folder) is None, "its end")
    found = ending(folder)
    assert (found.how, found.by, found.why) == ("exit code 0", "", "it was sent SIGTERM")


def test_a_kill_from_outside_is_found_out_once(folder: Path) -> None:
    process_id = processes.known(folder)
    assert process_id is not None
    os.kill(process_id.pid, signal.SIGKILL)
    wait_until(lambda: processes.running(folder) is None, "its end")
    found = ending(folder)
    assert (found.pid, found.how, found.by) == (process_id.pid, "SIGKILL", "")
    assert processes.last_end(folder) == found
    for log in logs(folder):
        assert log.count(f"process {found.pid} is gone; SIGKILL: ") == 1


def test_a_server_that_cannot_go_on_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "ns"
    processes.start(folder, ["cluster.local.nameserver_main", "--listen", "256.0.0.1:1"], tied=True)
    wait_until(lambda: processes.running(folder) is None, "its end")
    found = ending(folder)
    assert found.how.startswith("exit code ")
    assert found.how != "exit code 0"
    assert found.by == "itself" or "log.txt" in found.why  # it may end before it is registered


@pytest.mark.parametrize(
    ("born", "code", "oom_kills", "how", "why"),
    [
        (f"{BOOT} 1", None, 0, "no exit code", "killed from outside"),
        (f"{BOOT} 1", -9, 0, "SIGKILL", "killed from outside"),
        (f"{BOOT} 1", -9, 2, "SIGKILL", "out of memory, it seems: the kernel has killed 2 "),
        (f"{BOOT} 1", None, 1, "no exit code", "out of memory"),
        (f"{BOOT} 1", -11, 1, "SIGSEGV", "it crashed"),
        (f"{BOOT} 1", 74, 1, "exit code 74", "log.txt"),
        ("another 1", None, 1, "no exit code", "the machine was started again"),
    ],
)
def test_what_is_concluded(born: str, code: int | None, oom_kills: int, how: str, why: str) -> None:
    found = endings.concluded(born, code, oom_kills, BOOT)
    assert found[0] == how
    assert why in found[1]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": 1}'])
def test_a_damaged_file_is_no_ending(tmp_path: Path, text: str) -> None:
    (tmp_path / endings.END_FILE).write_text(text)
    assert endings.read(tmp_path) is None


def test_the_clusters_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / endings.CLUSTER_LOG
    log.write_bytes(b"x" * (endings.CLUSTER_LOG_BYTES + 1))
    (tmp_path / "n0").mkdir()
    endings.started(tmp_path / "n0", 4711)
    assert log.read_text().count("\n") == 1
    assert (tmp_path / endings.OLD_CLUSTER_LOG).stat().st_size > endings.CLUSTER_LOG_BYTES


def test_a_folder_that_takes_no_file_stops_nobody(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "n0"
    endings.asked(gone, 1, "b 1", signal.SIGKILL)
    endings.started(gone, 1)
    assert endings.read(gone) is None


def test_a_line_cannot_be_forged(tmp_path: Path) -> None:
    (tmp_path / "n0").mkdir()
    with endings.because("a\nb"):
        endings.asked(tmp_path / "n0", 1, "b 1", signal.SIGKILL)
    assert (tmp_path / endings.CLUSTER_LOG).read_text().count("\n") == 1
    assert json.loads((tmp_path / "n0" / endings.END_FILE).read_text())["why"] == "a\nb"
