"""A program that `runtime.loop.run` runs has one arena of the allocator for all its threads."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import limit

#: Threads that allocate at the same time, then the number of arenas that glibc has made.
PROGRAM = """
import ctypes, sys, threading
from dledger.runtime.loop import run

async def main():
    together = threading.Barrier(4)
    def work():
        together.wait()
        kept = [bytes(2000) for _ in range(2000)]
        together.wait()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads: one.start()
    for one in threads: one.join()
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = libc.fopen(sys.argv[1].encode(), b"w")
    libc.malloc_info(0, ctypes.c_void_p(file))
    libc.fclose(ctypes.c_void_p(file))

run(main())
"""


def arenas(folder: Path, **environment: str) -> int:
    file = folder / "arenas.xml"
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)],
        check=True,
        timeout=limit(60),
        env=env | environment,
    )
    return file.read_text().count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_threads_share_one_arena_unless_the_environment_says_otherwise(tmp_path: Path) -> None:
    assert arenas(tmp_path) == 1
    assert arenas(tmp_path, MALLOC_ARENA_MAX="4") > 1
