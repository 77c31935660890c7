"""Alerts of one machine: can a node run well here?

`look` reads the machine, `machine_alerts` says what is wrong with what was read, so that a test can
give it any machine.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import psutil

from cluster.health.alerts import CRITICAL, DISK_USED_MAX, WARNING, alert
from cluster.limits.descriptors import client_share, reserve
from cluster.limits.disk import DISK_FULL_RATIO

PYTHON_MIN = (3, 11)
DISK_FREE_MIN = 1 << 30
"""Bytes. A node keeps a file of the log and of the queues ahead of what it writes."""
MEMORY_FREE_MIN = 256 << 20
"""Bytes. A loaded node takes 50 MB, and the page cache is what makes reads quick."""
CLIENTS_MIN = 1024
"""Connections of clients that a node should be able to hold."""
NOT_ON_A_DISK = frozenset({"tmpfs", "ramfs"})
OVER_A_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs"})
QUICKER = {"uvloop": "the event loop", "numpy": "large batches", "zlib_ng": "checksums"}
"""Modules of the extra [fast] → what is slower without them."""
DISTRIBUTIONS = frozenset({"dledger"}) | {
    f"dledger-{part}" for part in ("commitlog", "client", "server", "chaos", "pipeline")
}
PACKAGES = ("chaos", "cluster", "commitlog", "dledger", "pipeline")
"""Top-level names of ours; what is installed last overwrites files of the same name."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as it was read; sizes in bytes, `folder` is where a node would keep its data."""

    system: str
    python: tuple[int, int]
    folder: Path
    file_system: str
    disk_total: int
    disk_free: int
    inodes_free: int | None
    memory_free: int
    open_files_hard: int
    missing_modules: frozenset[str]
    strangers: Mapping[str, str]
    """Our top-level name → another distribution that has it, too."""


def look(folder: Path) -> Machine:
    """Read the machine; `folder` need not exist yet, then its nearest parent is looked at.

    Raises OSError when no parent can be read.
    """
    nearest = folder.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    disk = shutil.disk_usage(nearest)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    missing = frozenset(name for name in QUICKER if importlib.util.find_spec(name) is None)
    return Machine(
        system=platform.system(),
        python=sys.version_info[:2],
        folder=nearest,
        file_system=file_system_of(nearest),
        disk_total=disk.total,
        disk_free=disk.free,
        inodes_free=_inodes_free(nearest),
        memory_free=psutil.virtual_memory().available,
        open_files_hard=sys.maxsize if hard == resource.RLIM_INFINITY else hard,
        missing_modules=missing,
        strangers=strangers(packages_distributions()),
    )


def strangers(installed: Mapping[str, list[str]]) -> dict[str, str]:
    """Our top-level name → another distribution that has it. `installed`: name → distributions."""
    return {
        name: other
        for name in PACKAGES
        for other in sorted(set(installed.get(name, ())))
        if other.lower().replace("_", "-") not in DISTRIBUTIONS
    }


def file_system_of(folder: Path) -> str:
    """The kind of file system that holds the folder, "" where the machine does not tell."""
    held = [
        part
        for part in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(part.mountpoint)
    ]
    nearest = max(held, key=lambda part: len(Path(part.mountpoint).parts), default=None)
    return "" if nearest is None else nearest.fstype


def _inodes_free(folder: Path) -> int | None:
    found = os.statvfs(folder)
    return found.f_favail if found.f_files else None  # btrfs and others have no such limit


def machine_alerts(machine: Machine) -> Iterator[dict[str, str]]:
    """All alerts of the machine, the worst first."""
    found = [*_programs(machine), *_disk(machine), *_limits(machine)]
    yield from sorted(found, key=lambda one: one["level"] != CRITICAL)


def _programs(machine: Machine) -> Iterator[dict[str, str]]:
    if machine.python < PYTHON_MIN:
        version = ".".join(map(str, machine.python))
        yield _of_machine(
            CRITICAL, "python", f"Python {version} is too old", "install Python 3.11 or newer"
        )
    if machine.system != "Linux":
        yield _of_machine(
            WARNING,
            "platform",
            f"{machine.system} is not tested: its syncs may not reach the disk",
            "run nodes that hold data of value on Linux",
        )
    for name, other in machine.strangers.items():
        yield _of_machine(
            WARNING,
            "packages",
            f"{other} is installed beside dledger and has a package {name}, too: the one that came "
            "last overwrote files of the other",
            "install dledger in an environment of its own (python -m venv)",
        )
    if machine.missing_modules:
        slower = ", ".join(QUICKER[name] for name in sorted(machine.missing_modules))
        names = ", ".join(sorted(machine.missing_modules))
        yield _of_machine(
            WARNING, "fast", f"{names} missing, so slower: {slower}", "pip install 'dledger[fast]'"
        )


def _disk(machine: Machine) -> Iterator[dict[str, str]]:
    used = 1 - machine.disk_free / machine.disk_total if machine.disk_total else 0.0
    where = str(machine.folder)
    if used >= DISK_FULL_RATIO:
        yield _of_machine(
            CRITICAL,
            "disk-full",
            f"the disk of {where} is {used:.0%} full, and brokers refuse messages from "
            f"{DISK_FULL_RATIO:.0%} on",
            "free space, or keep the data on another disk",
        )
    elif machine.disk_free < DISK_FREE_MIN:
        yield _of_machine(
            CRITICAL,
            "disk-small",
            f"the disk of {where} has {machine.disk_free >> 20} MiB free",
            "free space: a node wants 1 GiB or more",
        )
    elif used >= DISK_USED_MAX:
        yield _of_machine(
            WARNING,
            "disk-filling",
            f"the disk of {where} is {used:.0%} full",
            f"free space before {DISK_FULL_RATIO:.0%}: brokers refuse messages from there on",
        )
    if machine.inodes_free is not None and machine.inodes_free < 10_000:
        yield _of_machine(
            CRITICAL,
            "inodes",
            f"the disk of {where} has space for {machine.inodes_free} more files only",
            "delete small files there: each queue of a topic has a file",
        )
    if machine.file_system in NOT_ON_A_DISK:
        yield _of_machine(
            WARNING,
            "file-system",
            f"{where} is on {machine.file_system}, which a restart of the machine empties",
            "keep data of value on a disk (dledger up --root FOLDER)",
        )
    elif machine.file_system in OVER_A_NETWORK:
        yield _of_machine(
            WARNING,
            "file-system",
            f"{where} is on {machine.file_system}: locks and syncs there may not hold",
            "keep the data on a disk of this machine",
        )


def _limits(machine: Machine) -> Iterator[dict[str, str]]:
    if machine.memory_free < MEMORY_FREE_MIN:
        yield _of_machine(
            WARNING,
            "memory",
            f"{machine.memory_free >> 20} MiB of memory are free",
            "end something that uses memory, or take a larger machine",
        )
    clients = client_share(machine.open_files_hard)
    if clients < CLIENTS_MIN:
        yield _of_machine(
            WARNING,
            "open-files",
            f"a process may have {machine.open_files_hard} files open,"
            f" {reserve(machine.open_files_hard)} of them for the node's own, so at most {clients}"
            " clients connect",
            "raise the limit (ulimit -Hn, LimitNOFILE)",
        )


def _of_machine(level: str, kind: str, text: str, attempt: str) -> dict[str, str]:
    return alert(level, kind, "this machine", text, attempt)
