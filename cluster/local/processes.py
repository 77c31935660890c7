"""Child processes that are ours for certain: known by process id and creation time.

    <folder>/process.json   {"pid": 4711, "created": 1795219201.37}   of the last start
    <folder>/log.txt        what it printed; appended to by each start

A process id is used again after a while, a pair of id and creation time is not. So a stale file can
never make us signal a stranger.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

# A node flushes and closes its files when asked to stop; a second is plenty, ten is a stuck disk.
STOP_SECONDS_MAX = 10.0
LOG_TAIL_BYTES = 8192
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Names one process for ever."""

    pid: int
    created: float

    def process(self) -> psutil.Process | None:
        """The running process, or None when it ended (or only waits to be reaped)."""
        try:
            process = psutil.Process(self.pid)
            alive = self.is_of(process) and process.status() != psutil.STATUS_ZOMBIE
            return process if alive else None
        except psutil.NoSuchProcess:
            return None

    def is_of(self, process: psutil.Process) -> bool:
        """Whether it names this process and not a later one with the same number."""
        # The clock that creation times are taken from is corrected now and then.
        return abs(process.create_time() - self.created) < 1.0


def start(folder: Path, arguments: Sequence[str], *, tied: bool) -> ProcessId:
    """Run `python -m <arguments>` with its output in log.txt, detached from the terminal.

    `tied`: the child ends when this process does, however it ends: it holds the read end of a pipe
    (its number follows `--parent-fd`) whose write end only we have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", *arguments]
    inherited: tuple[int, ...] = ()
    if tied:
        inherited = (_pipe_to_children(),)
        command += ["--parent-fd", str(inherited[0])]
    with (folder / "log.txt").open("ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=inherited,
        )
    _CHILDREN[child.pid] = child
    found = ProcessId(child.pid, psutil.Process(child.pid).create_time())
    (folder / "process.json").write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    return found


# Popen objects of this process's own children: kept so that they can be reaped.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
_pipe: list[int] = []


def _pipe_to_children() -> int:
    if not _pipe:
        _pipe.extend(os.pipe())
    return _pipe[0]


def known(folder: Path) -> ProcessId | None:
    """The process that was last started for a folder, running or not."""
    try:
        found = json.loads((folder / "process.json").read_text(encoding="utf-8"))
        return ProcessId(int(found["pid"]), float(found["created"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def running(folder: Path) -> psutil.Process | None:
    """The folder's process, when it runs."""
    found = known(folder)
    if found is None:
        return None
    if (child := _CHILDREN.get(found.pid)) and child.poll() is not None:
        return None
    return found.process()


def send(folder: Path, number: signal.Signals) -> bool:
    """Signal the folder's process; False when it does not run."""
    process = running(folder)
    if process is None:
        return False
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def kill(folders: Sequence[Path]) -> None:
    """SIGKILL the processes of these folders, all at once, and wait until all are gone.

    A killed process is a zombie, and still holds its ports and locks, for as long as one of its
    threads is inside a sync of the disk.
    """
    found = [known(folder) for folder in folders]
    for folder in folders:
        send(folder, signal.SIGKILL)
    for process_id in found:
        if process_id is None:
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(process_id.pid)
            if process_id.is_of(process):
                _wait(process, STOP_SECONDS_MAX)


def stop(folders: Sequence[Path]) -> list[Path]:
    """Ask the processes of these folders to end, all at once; kill what does not.

    Returns the folders whose process had to be killed.
    """
    asked = []
    for folder in folders:
        if (process := running(folder)) is not None:
            # A frozen process handles nothing: wake it, so that it can end by itself.
            process.send_signal(signal.SIGCONT)
            process.terminate()
            asked.append((folder, process))
    killed = []
    for folder, process in asked:
        if not _wait(process, STOP_SECONDS_MAX):
            process.kill()
            _wait(process, STOP_SECONDS_MAX)
            killed.append(folder)
    return killed


def _wait(process: psutil.Process, seconds: float) -> bool:
    """Wait until the process is gone; False when it is not in time."""
    end = time.monotonic() + seconds
    while not _is_gone(process):
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _is_gone(process: psutil.Process) -> bool:
    """Ended, with all its threads; reaped or not, since a stranger's init may take its time."""
    if child := _CHILDREN.get(process.pid):
        child.poll()
    try:
        # One of its threads may still be inside a sync of the disk, and hold ports and locks.
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def log_tail(folder: Path) -> str:
    """The last lines that the folder's process printed."""
    try:
        with (folder / "log.txt").open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def holder_of(address: str) -> str:
    """Who listens on "host:port", in words."""
    host, _, port = address.rpartition(":")
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return "another process (its name is hidden from this user)"
    for connection in connections:
        local = connection.laddr
        if not local or connection.status != psutil.CONN_LISTEN or local.port != int(port):
            continue
        if local.ip not in {host, "0.0.0.0", "::"}:
            continue
        if connection.pid is None:
            return "another user's process"
        try:
            name = " ".join(psutil.Process(connection.pid).cmdline())[:120]
        except psutil.Error:
            name = "a process that just ended"
        return f"process {connection.pid} ({name})"
    return "another process"
