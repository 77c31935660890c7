"""The last end of a folder's process: which process ended it, with which signal, and why.

    <folder>/last_end.json   the newest end, of which process; kept over its restarts
    <folder>/log.txt         the same as a line between the node's own
    <root>/cluster.log       the same, of all processes of a cluster; above 1 MiB it becomes
                             cluster.1.log, and the one before that goes

    told by        when
    who ends it    before the signal is sent (`asked`); where it is sent by a tool of ours
    itself         as its last action (`ended`): its exit code, and what made it stop
    who looks      of a process that is gone and of which nothing says how (`found`): by its exit
                   code when it was our child, by the machine's boot, by the kernel's count of
                   processes that it killed for memory

Code that ends a process says why with `because("dledger chaos: kill")` around it. A reason is never
worth a failure: an error while one of these files is written is passed over.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cluster.local.node_log import one_line

END_FILE, CLUSTER_LOG, OLD_CLUSTER_LOG = "last_end.json", "cluster.log", "cluster.1.log"
CLUSTER_LOG_BYTES = 1 << 20
#: Folder of this process, set by the launcher; a server that something else started has none.
FOLDER_VARIABLE = "DLEDGER_PROCESS_FOLDER"
_TEXT_CHARS_MAX = 300
#: Other signals are the kernel's answer to what the process itself did.
_SENT_BY_OTHERS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")

_why: contextvars.ContextVar[str] = contextvars.ContextVar("why a process is ended", default="")


@dataclass(frozen=True, slots=True)
class Ending:
    """One end of one process.

    Attributes:
        pid, born: which process (processes.ProcessId).
        at_ms: when, in ms since 1970.
        how: "SIGKILL", "SIGTERM", "exit code 74"; both where a signal was asked for and obeyed.
        by: who ended it: "process 4711 (dledger down)"; "itself"; "" where nobody has told.
        why: the reason that was given, or what can be concluded.
        over: it is gone; until then it was only asked to.
    """

    pid: int
    born: str
    at_ms: int
    how: str
    by: str = ""
    why: str = ""
    over: bool = True

    def sentence(self) -> str:
        """One sentence: when, how, by which process, why."""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at_ms / 1000))
        by = f" by {self.by}" if self.by else ""
        why = f": {self.why}" if self.why else ""
        return f"{at} process {self.pid} ended with {self.how}{by}{why}"


@contextlib.contextmanager
def because(why: str) -> Iterator[None]:
    """Record `reason` for processes that are ended in the block, also by its threads."""
    outer = _why.get()
    token = _why.set((f"{outer}; {why}" if outer else why)[:_TEXT_CHARS_MAX])
    try:
        yield
    finally:
        _why.reset(token)


def ender() -> str:
    """This process, as one that ends others: its id and command."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_TEXT_CHARS_MAX]
    return f"process {os.getpid()} ({command})"


def asked(folder: Path, pid: int, born: str, number: signal.Signals, why: str = "") -> None:
    """This process is about to send a signal that ends another."""
    said = why or _why.get()
    one = Ending(pid, born, _now_ms(), number.name, ender(), said, over=False)
    _keep(folder, one)
    _tell(folder, f"{number.name} to process {pid} by {one.by}" + (f": {said}" if said else ""))


def gone(folder: Path, pid: int, born: str) -> None:
    """Record the end of a process that was asked to end and wrote no record of its own."""
    one = read(folder)
    if one is not None and (one.pid, one.born) == (pid, born) and not one.over:
        _keep(folder, replace(one, over=True, at_ms=_now_ms()))


def started(folder: Path, pid: int) -> None:
    """This process has started another."""
    why = f": {_why.get()}" if _why.get() else ""
    _tell(folder, f"process {pid} started by {ender()}{why}", in_node=False)


def ended(how: str, why: str, by: str = "") -> None:
    """Written last by a server that the launcher started; others have no file for it."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    before = read(Path(folder))
    process = _own(Path(folder))
    if process is None:
        return
    asked_how = ""
    if before is not None and (before.pid, before.born) == process and not before.over:
        by, asked_how = before.by, f"{before.how}, "
        # An error is more than the reason for which it was asked to go.
        why = before.why if how == "exit code 0" else why
    one = Ending(*process, _now_ms(), asked_how + how, by, why[:_TEXT_CHARS_MAX])
    _keep(Path(folder), one)
    _tell(Path(folder), one.sentence())


def found(folder: Path, pid: int, born: str, exit_code: int | None, oom_kills: int) -> Ending:
    """The end of a process that is gone. Without a record it is concluded and recorded now.

    Args:
        exit_code: of our own child, negative for a signal; None: it was not our child.
        oom_kills: the kernel's count when it was started (`count_oom_kills`).
    """
    one = read(folder)
    if one is not None and (one.pid, one.born) == (pid, born):
        if not one.over:
            gone(folder, pid, born)
        return read(folder) or one
    how, why = concluded(born, exit_code, count_oom_kills() - oom_kills, boot_id())
    one = Ending(pid, born, _now_ms(), how, "", why)
    _keep(folder, one)
    _tell(folder, f"process {pid} is gone; {how}: {why}")
    return one


def concluded(born: str, exit_code: int | None, oom_kills: int, boot: str) -> tuple[str, str]:
    """The probable end of a process without a record. `oom_kills`: since its start."""
    if boot and not born.startswith(boot):
        return "no exit code", "the machine was started again meanwhile: power cut, crash or reboot"
    if exit_code is not None and exit_code >= 0:
        return f"exit code {exit_code}", "its last lines in log.txt say why"
    how = "no exit code"
    if exit_code is not None:
        how = signal.Signals(-exit_code).name
    if oom_kills > 0 and how in ("no exit code", "SIGKILL"):
        return how, (
            f"out of memory, it seems: the kernel has killed {oom_kills} processes for memory "
            "since this one was started"
        )
    if how in ("no exit code", *_SENT_BY_OTHERS):
        return how, "no tool of this cluster ended it, and it had no last word: killed from outside"
    return how, "it crashed; its last lines in log.txt may say where"


def read(folder: Path) -> Ending | None:
    """The record, or None."""
    try:
        found = json.loads((folder / END_FILE).read_text(encoding="utf-8"))
        return Ending(**{name: found[name] for name in Ending.__slots__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def count_oom_kills() -> int:
    """Processes that this machine's kernel has killed for memory since it was started; Linux."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def boot_id() -> str:
    """Id of this start of the machine; "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _own(folder: Path) -> tuple[int, str] | None:
    """This process, as its folder names it."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found: dict[str, Any] = json.loads((folder / "process.json").read_text(encoding="utf-8"))
        if found["pid"] == os.getpid():
            return int(found["pid"]), str(found["born"])
    return None


def _now_ms() -> int:
    return int(time.time() * 1000)


def _keep(folder: Path, one: Ending) -> None:
    with contextlib.suppress(OSError):
        made = folder / f"{END_FILE}.new"
        made.write_text(json.dumps(asdict(one)) + "\n", encoding="utf-8")
        made.replace(folder / END_FILE)


def _tell(folder: Path, what: str, *, in_node: bool = True) -> None:
    """As lines of their own, appended whole."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1000):03d}"
    line = f"{stamp} WARNING {__name__}: {folder.name}: {one_line(what)}\n"
    with contextlib.suppress(OSError):
        log = folder.parent / CLUSTER_LOG
        if log.exists() and log.stat().st_size > CLUSTER_LOG_BYTES:
            log.replace(folder.parent / OLD_CLUSTER_LOG)
        _append(log, line)
    if in_node:
        with contextlib.suppress(OSError):
            _append(folder / "log.txt", line)


def _append(path: Path, line: str) -> None:
    with path.open("ab") as file:
        file.write(line.encode())
