"""What a shape does to bytes, and that it counts what it did."""

from __future__ import annotations

import pytest

from chaos.live.shape import CutHere, Repeater, Shape

DATA = bytes(range(200))


def through(shape: Shape, *chunks: bytes) -> tuple[float, bytes]:
    repeater = Repeater()
    steps = [step for chunk in chunks for step in shape.steps(chunk, repeater)]
    return sum(wait for wait, _ in steps), b"".join(data for _, data in steps)


def test_nothing_is_done_by_default() -> None:
    assert through(Shape(), DATA) == (0.0, DATA)


def test_delay_and_cap_only_wait() -> None:
    wait, data = through(Shape(latency=0.1, jitter=0.1, bandwidth=1000), DATA)
    assert data == DATA
    assert 0.3 <= wait <= 0.4


def test_a_lost_packet_is_sent_again() -> None:
    shape = Shape(loss=1.0)
    assert through(shape, DATA) == (0.2, DATA)
    assert shape.effects["lost packets"] == 1


def test_slices_keep_every_byte() -> None:
    shape = Shape(slice_size=1, slice_delay=0.001)
    wait, data = through(shape, DATA, DATA)
    assert data == DATA + DATA
    assert wait > 0.3
    assert shape.effects["slices"] == 400


@pytest.mark.parametrize(
    ("shape", "effect"),
    [
        (Shape(corrupt=1.0), "flipped bits"),
        (Shape(duplicate=1.0), "duplicated"),
        (Shape(reorder=1.0), "reordered"),
    ],
)
def test_damage_changes_the_stream_and_is_counted(shape: Shape, effect: str) -> None:
    _, data = through(shape, DATA)
    assert data != DATA
    assert shape.effects[effect] == 1


def test_one_flipped_bit_is_one_bit() -> None:
    _, data = through(Shape(corrupt=1.0, seed=4), DATA)
    different = [a ^ b for a, b in zip(data, DATA, strict=True) if a != b]
    assert len(different) == 1
    assert different[0].bit_count() == 1


def test_the_same_seed_damages_the_same_way() -> None:
    assert through(Shape(reorder=0.5, seed=9), *[DATA] * 9) == through(
        Shape(reorder=0.5, seed=9), *[DATA] * 9
    )


def test_a_cut_ends_in_mid_stream() -> None:
    shape = Shape(cut_after=250)
    repeater = Repeater()
    assert list(shape.steps(DATA, repeater)) == [(0.0, DATA)]
    with pytest.raises(CutHere) as cut:
        list(shape.steps(DATA, repeater))
    assert cut.value.passed == DATA[:50]


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_whole_frames_are_repeated_however_they_arrive() -> None:
    stream = frame(b"one") + frame(b"two") + frame(b"three")
    shape = Shape(replay=2)
    _, data = through(shape, *(stream[at : at + 1] for at in range(len(stream))))
    assert data == frame(b"one") + frame(b"two") * 2 + frame(b"three")
    assert shape.effects["replayed frames"] == 1


def test_what_is_kept_of_a_frame_is_not_lost_when_repeating_ends() -> None:
    repeater = Repeater()
    passed, _ = repeater.feed(frame(b"one") + b"\0\0", 1)
    assert passed == frame(b"one") * 2
    assert repeater.rest() == b"\0\0"
    assert repeater.rest() == b""


def test_a_stream_without_frames_passes_as_it_is() -> None:
    assert Repeater().feed(b"\xff" * 20, 1) == (b"\xff" * 20, 0)
