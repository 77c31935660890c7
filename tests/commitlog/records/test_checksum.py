"""Both makers of CRC-32 agree; the tests run with the one that serves here."""

from __future__ import annotations

import importlib
import random
import sys
import zlib

import pytest

from commitlog.records import checksum


@pytest.mark.parametrize("size", [0, 1, 15, 16, 44, 1024, 6000, 70_000])
def test_the_same_as_zlib(size: int) -> None:
    data = random.Random(size).randbytes(size + 3)
    for piece in (data[:size], bytearray(data[:size]), memoryview(data)[3:]):
        assert checksum.crc32(piece) == zlib.crc32(piece)
        assert checksum.crc32(piece, 0xDEADBEEF) == zlib.crc32(piece, 0xDEADBEEF)


def test_without_a_wheel_zlib_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
    try:
        importlib.reload(checksum)
        assert checksum.crc32 is zlib.crc32
    finally:
        monkeypatch.undo()
        importlib.reload(checksum)


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_of_two_runs_is_that_of_both(seed: int) -> None:
    draw = random.Random(seed)
    for size in (0, 1, 7, 8, 1000, draw.randrange(100_000)):
        first, second = draw.randbytes(draw.randrange(100)), draw.randbytes(size)
        joined = checksum.crc32_joined(zlib.crc32(first), zlib.crc32(second), size)
        assert joined == zlib.crc32(first + second)
