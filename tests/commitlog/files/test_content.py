"""Large files are written in pieces, each synced, with rests for the disk's other work."""

from __future__ import annotations

import pytest

from commitlog.files.content import SETTLE_BYTES, joined, size_of, write_parts
from commitlog.files.paced_sync import REST_SECONDS_MAX, PacedSync

SIZES = (0, 1, SETTLE_BYTES - 1, SETTLE_BYTES, SETTLE_BYTES + 1, 3 * SETTLE_BYTES + 5)


@pytest.mark.parametrize("sizes", [(size,) for size in SIZES] + [SIZES, (1 << 20,) * 9])
def test_parts_are_written_whole_and_never_more_than_a_piece_unsynced(
    sizes: tuple[int, ...],
) -> None:
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    written, unsynced = bytearray(), 0

    def pwrite(data: bytes | bytearray | memoryview, position: int) -> None:
        nonlocal unsynced
        assert position == len(written)
        written.extend(data)
        unsynced += len(data)
        assert unsynced < 2 * SETTLE_BYTES

    def settle() -> None:
        nonlocal unsynced
        assert unsynced >= SETTLE_BYTES, "small files are synced once, at their end"
        unsynced = 0

    write_parts(pwrite, parts, settle)
    assert written == b"".join(parts)
    assert size_of(parts) == len(written) == size_of(bytes(written))
    assert joined(parts) == joined(bytes(written)) == written


@pytest.mark.parametrize(("took", "rested"), [(0.0, 0.0), (0.01, 0.015), (2.0, REST_SECONDS_MAX)])
def test_a_sync_is_followed_by_a_rest_that_grows_with_it(took: float, rested: float) -> None:
    now = 10.0
    rests: list[float] = []

    def sync() -> None:
        nonlocal now
        assert not rests
        now += took

    PacedSync(sync, lambda: now, rests.append)()
    assert rests == [pytest.approx(rested)]
