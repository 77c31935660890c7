"""Finds and removes the remains of a killed run on this machine; the next run does so before it
begins.

    node     stopped or frozen: it cannot see that its run has ended    $DLEDGER_CHAOS_OWNER
    cgroup   dledger-chaos-<run's process>-<node's process>             frozen, or with a limit
    mount    the ext4 image of a node's disk                            owner.json beside the image

A run that is asked to end leaves nothing (live/interrupted.py); SIGKILL and the kernel's out of
memory ask nobody. Networks are taken away by live/namespaces.py. What belongs to a run that lives
is never touched: owners are told by process and moment of birth.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import psutil

from chaos.drivers.tools import run_tool
from cluster.local.processes import ProcessId

#: In each node's environment: the run that it belongs to.
VARIABLE = "DLEDGER_CHAOS_OWNER"
OWNER_FILE = "owner.json"
_KINDS_OF_GROUPS = ("freezer", "cpu", "cpu,cpuacct", "memory")
CGROUPS = tuple(Path("/sys/fs/cgroup") / name for name in _KINDS_OF_GROUPS)
MOUNTS = Path("/proc/self/mounts")
BLOCK_DEVICES = Path("/sys/block")
END_SECONDS_MAX = 5.0


def group_of(cgroup: Path, pid: int) -> Path:
    """The folder of this run's group for a node's process."""
    return cgroup / f"dledger-chaos-{os.getpid()}-{pid}"


def owner() -> str:
    """This process, as its nodes are told it; its number means something in its own world only."""
    return json.dumps(asdict(ProcessId.of(os.getpid())) | {"world": _world()})


def _world() -> int:
    """Returns the number of this process's PID namespace. Process numbers of another one are
    unknown here."""
    return os.stat("/proc/self/ns/pid").st_ino


def sign(folder: Path) -> None:
    """Say in a folder of images that this process has them mounted."""
    (folder / OWNER_FILE).write_text(owner() + "\n", encoding="utf-8")


def sweep() -> list[str]:
    """Removes the remains of runs that no longer exist. Returns a description of each.

    What cannot be taken away is left, and said: it is no reason not to begin.
    """
    told = []
    # In this order: a frozen process cannot die, and a mount is busy while a process uses it.
    for what in (_groups, _nodes, _mounts):
        with contextlib.suppress(PermissionError):  # another user's
            told += list(what())
    return told


def _groups() -> Iterator[str]:
    for cgroup in CGROUPS:
        for group in sorted(cgroup.glob("dledger-chaos-*")):
            found = re.fullmatch(r"dledger-chaos-(\d+)-\d+", group.name)
            if found is None or psutil.pid_exists(int(found[1])):
                continue
            with contextlib.suppress(OSError):
                if (state := group / "freezer.state").exists():
                    state.write_text("THAWED")
                for pid in (group / "cgroup.procs").read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        (cgroup / "cgroup.procs").write_text(pid)
                group.rmdir()
                yield f"control group {group.name}"


def _nodes() -> Iterator[str]:
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _is_gone(process.environ().get(VARIABLE, "")):
                process.send_signal(signal.SIGKILL)
                left.append(process)
    psutil.wait_procs(left, timeout=END_SECONDS_MAX)
    for process in left:
        yield f"process {process.pid} of a node"


def _mounts() -> Iterator[str]:
    for line in MOUNTS.read_text(encoding="utf-8").splitlines():
        device, mount_point, *_ = line.split()
        image = _image_of(device)
        if image is None or not _is_gone(_read(image.parent / OWNER_FILE)):
            continue
        with contextlib.suppress(OSError):
            # With a process that ends only now it goes when that has.
            run_tool("umount", "-l", _unescaped(mount_point))
            yield f"disk {image}"


def _image_of(device: str) -> Path | None:
    """The file behind a loop device."""
    told = BLOCK_DEVICES / Path(device).name / "loop" / "backing_file"
    name = _read(told).removesuffix(" (deleted)")
    return Path(name) if device.startswith("/dev/loop") and name else None


def _unescaped(name: str) -> str:
    """As the mount table writes blanks and other rare characters."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)


def _is_gone(signed: str) -> bool:
    """True if the run that signed with these words has ended. False for other signatures."""
    try:
        found = json.loads(signed)
        one = ProcessId(int(found["pid"]), str(found["born"]))
        return found["world"] == _world() and not one.exists()
    except (ValueError, KeyError, TypeError):
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
