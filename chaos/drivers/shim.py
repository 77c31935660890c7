"""Disk faults for one process: a preloaded library that makes its system calls fail or slow.

`Shims` compiles `shim.c`. Start the node's process with the variables of `Shims.environment(node)`;
`Shim.set` then changes the faults from the process's next system call on. Needs Linux and a C
compiler, but no privilege. The library counts the calls that it changed in the control file.
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
CONTROL_BYTES = 64
BUILD_SECONDS_MAX = 60.0
_COMPILERS = ("cc", "gcc", "clang")
_FIELDS = struct.Struct("7i")


class Mode(enum.IntEnum):
    """The treatment of a system call; the same numbers as in shim.c."""

    NONE = 0
    FAIL = 1
    FULL = 2
    SHORT = 3
    SLOW = 4
    HANG = 5
    LIE = 6


def why_not() -> str:
    """Why the shim cannot be used here; "" when it can."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if compiler() is None:
        return "needs a C compiler (Debian package gcc)"
    return ""


def compiler() -> str | None:
    """Path of cc, gcc or clang, the first of these that PATH has; None without one."""
    return next((found for name in _COMPILERS if (found := shutil.which(name))), None)


def build(folder: Path) -> Path:
    """Compile into `folder` and return the library. Raises OSError with the compiler's words."""
    target = folder / "shim.so"
    program = compiler()
    if program is None:
        raise OSError("no C compiler was found; install gcc")
    done = subprocess.run(
        [program, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
        start_new_session=True,  # Ctrl-C on the terminal must not reach the compiler
    )
    if done.returncode:
        raise OSError(f"the disk shim could not be built: {done.stderr.strip()[-500:]}")
    return target


class Shim:
    """Sets and counts the disk faults of one node."""

    def __init__(self, control: Path) -> None:
        # The process maps the same file: it reads the faults there and writes its counts.
        self._fd = os.open(control, os.O_RDWR | os.O_CLOEXEC)

    def set(
        self,
        *,
        write: Mode = Mode.NONE,
        sync: Mode = Mode.NONE,
        read: Mode = Mode.NONE,
        delay_ms: int = 0,
    ) -> None:
        """Set the faults from the process's next call on; without arguments, end all of them."""
        os.pwrite(self._fd, struct.pack("4i", write, sync, read, delay_ms), 0)

    def hits(self) -> tuple[int, int, int]:
        """Counts of the writes, syncs and reads that a fault has changed so far."""
        fields = _FIELDS.unpack(os.pread(self._fd, _FIELDS.size, 0))
        return fields[4], fields[5], fields[6]

    @contextlib.contextmanager
    def faulty(self, **modes: int) -> Iterator[None]:
        """Set faults as `set` does, and end them when the block ends."""
        self.set(**modes)  # type: ignore[arg-type]  # the names of `set`
        try:
            yield
        finally:
            self.set()

    def close(self) -> None:
        """Closes the control file; the faults that are set stay."""
        os.close(self._fd)


class Shims:
    """The shims of a cluster's nodes; `folder` holds the library and the control files."""

    def __init__(self, folder: Path, data: dict[str, Path]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._data = folder.resolve(), data
        self._library = build(self._folder)
        for node in data:
            self._control(node).write_bytes(bytes(CONTROL_BYTES))
        self._shims = {node: Shim(self._control(node)) for node in data}

    def __getitem__(self, node: str) -> Shim:
        return self._shims[node]

    def environment(self, node: str) -> dict[str, str]:
        """Variables for the node's process."""
        return {
            "LD_PRELOAD": str(self._library),
            "DLEDGER_SHIM_CONTROL": str(self._control(node)),
            "DLEDGER_SHIM_FOLDER": str(self._data[node].resolve()),
        }

    def close(self) -> None:
        """Ends all faults and closes the control files."""
        for shim in self._shims.values():
            shim.set()
            shim.close()

    def _control(self, node: str) -> Path:
        return self._folder / f"{node}.control"
