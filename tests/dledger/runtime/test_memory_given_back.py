"""Memory that was freed goes back to the system when it is given back, not before."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from tests.waiting import limit

PROGRAM = """
from dledger.runtime.loop import give_back_memory, share_arena

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

share_arena()
blocks = [b"x" * 100_000 for _ in range(400)]
above = b"y" * 100_000  # keeps the end of the heap, so that the allocator cannot shrink it
blocks.clear()
kept = resident()
give_back_memory()
print(kept - resident())
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="the allocator is not glibc's",
)
def test_freed_memory_is_given_back() -> None:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=limit(60)
    )
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) > 20_000_000, "of the 40 MB that were freed"
