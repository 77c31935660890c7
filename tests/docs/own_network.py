"""A network of this test's own, where every address that a page prints is free.

Programs of pages listen on 127.0.0.1 and on the ports that everybody uses. In a network namespace
nobody else does, so a program runs as it is printed beside other tests and beside a cluster of the
machine's owner. Where the machine lacks namespaces, the machine's own loopback is used, by one test
module at a time, when nobody has the ports.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cluster.local import plan

_UP = "ip link set lo up && echo up && exec cat"
#: How to make a namespace, and how to enter it: as root, then as anybody.
_WAYS = (
    (("unshare", "--net"), ("nsenter", "--net")),
    (
        ("unshare", "--map-root-user", "--net"),
        ("nsenter", "--preserve-credentials", "--user", "--net"),
    ),
)
_PROGRAM_PORTS = ("127.0.0.1:20911", "127.0.0.1:20912", "127.0.0.1:20913")


@contextlib.contextmanager
def own_network() -> Iterator[Sequence[str]]:
    """The words to put before a command, so that it runs in the network. It ends with the block."""
    if all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip")):
        for make, enter in _WAYS:
            with subprocess.Popen(
                [*make, "sh", "-c", _UP],
                stdin=subprocess.PIPE,  # its end is the end of the one who holds the namespace
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as holder:
                assert holder.stdout is not None
                if holder.stdout.readline() == "up\n":
                    yield [*enter, "--target", str(holder.pid), "--"]
                    return
    with _the_machines_own():
        yield []


@contextlib.contextmanager
def _the_machines_own() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / f"dledger-pages-{os.geteuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = [a for member in plan.plan(4) for a in member.listens().values()]
        taken = [address for address in (*wanted, *_PROGRAM_PORTS) if not plan.can_bind(address)]
        if taken:
            pytest.skip(f"not here: neither network namespaces nor {', '.join(taken)}")
        yield
