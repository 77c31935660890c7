"""The checkpoint file (docs/spec/store.md 5.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog.errors import StoreDamaged
from commitlog.recovery.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint

from ..strategies import int64, random_search


@random_search
@given(st.builds(Checkpoint, int64, int64, int64, int64, int64))
def test_round_trip(checkpoint: Checkpoint) -> None:
    data = encode_checkpoint(checkpoint)
    assert len(data) == 4096
    assert decode_checkpoint(data) == decode_checkpoint(memoryview(data)[:40]) == checkpoint


def test_a_file_of_4x_has_zeros_for_the_last_two() -> None:
    data = encode_checkpoint(Checkpoint(1, 2, 3))
    assert decode_checkpoint(data[:24].ljust(4096, b"\0")) == Checkpoint(1, 2, 3, 0, 0)


def test_replay_bound() -> None:
    assert Checkpoint(10_000, 9_000).replay_bound_ms == 6_000
    assert Checkpoint(10_000, 2_999).replay_bound_ms == 0


def test_a_short_file_is_damage() -> None:
    with pytest.raises(StoreDamaged):
        decode_checkpoint(bytes(39))
