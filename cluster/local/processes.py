"""Child processes that are ours for certain: known by process id and moment of birth.

    <folder>/process.json   {"pid": 4711, "born": "<boot id> 7912031"}   of the last start
    <folder>/log.txt        what it printed; appended to by each start, rotates to log.1.txt …

A process id is used again after a while, a pair of id and birth is not. So a stale file can never
make us signal a stranger. Birth is told in ticks since the machine's boot: told in time of day it
moves whenever the clock is set right, and our own process becomes a stranger.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import psutil

from cluster.local import endings
from cluster.local.node_log import LOG_FILE
from commitlog.address import split_address

# A node flushes and closes its files when asked to stop; a second is plenty, ten is a stuck disk.
STOP_SECONDS_MAX = 10.0
LOG_TAIL_BYTES = 8192
POLL_SECONDS = 0.01
REAP_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Names one process for ever."""

    pid: int
    born: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """The name of a process that exists. Raises psutil.NoSuchProcess."""
        return cls(pid, _born(pid))

    def process(self) -> psutil.Process | None:
        """The running process, or None when it ended (or only waits to be reaped)."""
        try:
            process = psutil.Process(self.pid)
            alive = self.exists() and process.status() != psutil.STATUS_ZOMBIE
            return process if alive else None
        except psutil.NoSuchProcess:
            return None

    def exists(self) -> bool:
        """Whether its number is still this process's, ended or not, and not a later one's."""
        try:
            return _born(self.pid) == self.born
        except psutil.NoSuchProcess:
            return False


def _born(pid: int) -> str:
    """When a process was made, as no other with its number was. Raises psutil.NoSuchProcess."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except FileNotFoundError:  # not Linux
        return str(psutil.Process(pid).create_time())
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    # Field 22 is the start in ticks since boot; field 2, in brackets, may hold spaces and brackets.
    return f"{boot} {int(stat.rpartition(b')')[2].split()[22 - 3])}"


class Spawn(Protocol):
    """Starts a process: module and arguments, descriptors, its whole environment."""

    def __call__(
        self,
        arguments: Sequence[str],
        output: int,
        inherited: Sequence[int],
        environment: Mapping[str, str],
    ) -> subprocess.Popen[bytes]: ...


def spawn_anew(
    arguments: Sequence[str],
    output: int,
    inherited: Sequence[int],
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Run `python -m <arguments>` in a session of its own; it prints to the descriptor `output`."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        pass_fds=inherited,
        env=environment,
    )


#: How clusters start their processes; tests have a way that need not start Python each time.
spawn: Spawn = spawn_anew


def start(
    folder: Path,
    arguments: Sequence[str],
    *,
    tied: bool,
    environment: Mapping[str, str] | None = None,
    spawn: Spawn = spawn_anew,
) -> ProcessId:
    """Run `python -m <arguments>` with its output in log.txt, detached from the terminal.

    `environment`: variables beside those of this process.

    `tied`: the child ends when this process does, however it ends: it holds the read end of a pipe
    (its number follows `--parent-fd`) whose write end only we have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = list(arguments)
    inherited: tuple[int, ...] = ()
    if tied:
        inherited = (_pipe_to_children(),)
        words += ["--parent-fd", str(inherited[0])]
    last_end(folder)  # of its former process, while that can still be found out
    path, oom_kills = folder / "log.txt", endings.count_oom_kills()
    told = {LOG_FILE: str(path.absolute()), endings.FOLDER_VARIABLE: str(folder.absolute())}
    with path.open("ab") as log:
        child = spawn(words, log.fileno(), inherited, {**os.environ, **told, **(environment or {})})
    _CHILDREN[child.pid] = child
    found = ProcessId.of(child.pid)
    told_of = asdict(found) | {"oom_kills": oom_kills}
    (folder / "process.json").write_text(json.dumps(told_of) + "\n", encoding="utf-8")
    endings.started(folder, found.pid)
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
        return ProcessId(int(found["pid"]), str(found["born"]))
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


def last_end(folder: Path) -> endings.Ending | None:
    """How the folder's process last ended: this one, or while it runs the one before; None: never.

    Of an end that nobody has told, what can be concluded (endings.py).
    """
    found = known(folder)
    if found is None or running(folder) is not None:
        return endings.read(folder)
    child, exit_code = _CHILDREN.get(found.pid), None
    if child is not None:
        # Its last thread may be on its way out; one that hangs in a sync is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            exit_code = child.wait(REAP_SECONDS_MAX)
    return endings.found(folder, found.pid, found.born, exit_code, _oom_kills(folder))


def _oom_kills(folder: Path) -> int:
    """The kernel's count when the folder's process was started."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads((folder / "process.json").read_text(encoding="utf-8"))
        return int(told["oom_kills"])
    return endings.count_oom_kills()


def send(folder: Path, number: signal.Signals) -> bool:
    """Signal the folder's process; False when it does not run."""
    process = running(folder)
    if process is None:
        return False
    if number not in (signal.SIGSTOP, signal.SIGCONT):
        _asked(folder, number)
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
    found = [(folder, known(folder), running(folder)) for folder in folders]
    for folder, _, process in found:
        if process is not None:
            _asked(folder, signal.SIGKILL)
    for _, _, process in found:  # told before, so that nothing is between one kill and the next
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    for folder, process_id, _ in found:
        if process_id is None:
            continue
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(process_id.pid)
            if process_id.exists():
                _wait(process, STOP_SECONDS_MAX)
        endings.gone(folder, process_id.pid, process_id.born)


def _asked(folder: Path, number: signal.Signals, why: str = "") -> None:
    if (process_id := known(folder)) is not None:
        endings.asked(folder, process_id.pid, process_id.born, number, why)


def stop(folders: Sequence[Path]) -> list[Path]:
    """Ask the processes of these folders to end, all at once; kill those that do not.

    Returns the folders whose process had to be killed.
    """
    asked = []
    for folder in folders:
        if (process := running(folder)) is not None:
            # A frozen process handles nothing: wake it, so that it can end by itself.
            process.send_signal(signal.SIGCONT)
            _asked(folder, signal.SIGTERM)
            process.terminate()
            asked.append((folder, process))
    killed = []
    for folder, process in asked:
        if not _wait(process, STOP_SECONDS_MAX):
            _asked(
                folder, signal.SIGKILL, f"it did not end within {STOP_SECONDS_MAX:.0f} s of SIGTERM"
            )
            process.kill()
            _wait(process, STOP_SECONDS_MAX)
            killed.append(folder)
        last_end(folder)
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
    """The last lines that the folder's process printed, also when its log has just rotated."""
    tail = b""
    for name in ("log.txt", "log.1.txt"):
        missing = LOG_TAIL_BYTES - len(tail)
        with contextlib.suppress(FileNotFoundError), (folder / name).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - missing))
            tail = log.read() + tail
    return tail[-LOG_TAIL_BYTES:].decode("utf-8", "replace")


def holder_of(address: str) -> str:
    """The process that listens on "host:port", in words."""
    host, port = split_address(address)
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        return "another process (its name is hidden from this user)"
    for connection in connections:
        local = connection.laddr
        if not local or connection.status != psutil.CONN_LISTEN or local.port != port:
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
