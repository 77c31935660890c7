"""Transforms the bytes that pass a link: delay, cap, slice, stall, damage, repeat. Seeded.

    chunk ─► stall ─► delay ─► cap ─► damage ─► repeat ─► slices ─► out

    loss       a packet was lost: nothing moves until it was sent again (200 ms, Linux's least RTO)
    corrupt    one flipped bit; TCP's checksum hides wire damage, so it is done above TCP
    duplicate  bytes that passed pass again: the stream is no stream any more
    reorder    two pieces change places
    replay     whole request frames of a client arrive twice (4 bytes of length, then the frame)
    cut        the connection ends after so many bytes, in mid-frame
    drop_after what comes after so many bytes vanishes, and the connection stays open

Each is counted, so that a fault can prove that it took effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

RETRANSMIT_SECONDS = 0.2
SLICES_MAX = 200  # of one chunk; the rest passes whole, or a large frame would take minutes
FRAME_SIZE_MAX = 16 << 20


class CutHere(Exception):
    """The connection ends now; `passed` are its last bytes."""

    def __init__(self, passed: bytes) -> None:
        super().__init__("cut in mid-stream")
        self.passed = passed


@dataclass(slots=True)
class Shape:
    """Settings of one direction of a link. Chances are per chunk.

    Attributes:
        latency, jitter: seconds; bandwidth: bytes a second, 0 for no limit.
        slice_size: bytes at a time, 0 for whole chunks; slice_delay: seconds between them.
        loss, corrupt, duplicate, reorder: chances.
        replay: repeat every so many-th frame, 0 for none.
        cut_after: bytes until the connection ends, -1 for never; with RST, or politely.
        drop_after: bytes of each connection until the rest of it vanishes, -1 for never.
    """

    latency: float = 0.0
    jitter: float = 0.0
    bandwidth: float = 0.0
    slice_size: int = 0
    slice_delay: float = 0.0
    loss: float = 0.0
    corrupt: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    replay: int = 0
    cut_after: int = -1
    cut_politely: bool = False
    drop_after: int = -1
    seed: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    _random: Random = field(init=False)
    _cut_left: int = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._cut_left = self.cut_after

    def steps(self, data: bytes, repeater: Repeater) -> Iterator[tuple[float, bytes]]:
        """(seconds to wait, bytes to pass then), in order. Raises CutHere."""
        wait = self._wait(len(data))
        data = self._damage(data)
        if self.replay:
            data, repeated = repeater.feed(data, self.replay)
            self.effects["replayed frames"] += repeated
        if self.drop_after >= 0:
            size = len(data)
            data = data[: repeater.within(self, self.drop_after, size)]
            self.effects["dropped bytes"] += size - len(data)
        if self._cut_left >= 0:
            self._cut_left -= len(data)
            if self._cut_left < 0:
                self.effects["cut"] += 1
                passed = data[: self._cut_left]
                self._cut_left = self.cut_after
                raise CutHere(passed)
        if self.slice_size and len(data) > self.slice_size:
            yield from self._slices(wait, data)
        else:
            yield wait, data

    def _wait(self, size: int) -> float:
        wait = 0.0
        if self.loss and self._random.random() < self.loss:
            self.effects["lost packets"] += 1
            wait += RETRANSMIT_SECONDS
        if self.latency or self.jitter:
            self.effects["delayed"] += 1
            wait += self.latency + self.jitter * self._random.random()
        if self.bandwidth:
            self.effects["capped bytes"] += size
            wait += size / self.bandwidth
        return wait

    def _damage(self, data: bytes) -> bytes:
        if self.corrupt and self._random.random() < self.corrupt:
            self.effects["flipped bits"] += 1
            damaged = bytearray(data)
            damaged[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
            data = bytes(damaged)
        if self.duplicate and self._random.random() < self.duplicate:
            self.effects["duplicated"] += 1
            data += data[-self._random.randint(1, len(data)) :]
        if self.reorder and len(data) > 1 and self._random.random() < self.reorder:
            self.effects["reordered"] += 1
            at = self._random.randrange(1, len(data))
            data = data[at:] + data[:at]
        return data

    def _slices(self, wait: float, data: bytes) -> Iterator[tuple[float, bytes]]:
        at = number = 0
        while number < SLICES_MAX and len(data) - at >= self.slice_size:
            end = at + self.slice_size
            yield (self.slice_delay if number else wait), data[at:end]
            at, number = end, number + 1
        self.effects["slices"] += number
        yield self.slice_delay, data[at:]


class Repeater:
    """The state of one stream: the number of bytes that passed, and the bytes of an incomplete
    frame; whole frames can be repeated."""

    def __init__(self) -> None:
        self._counted: object = None
        self._passed = 0
        self._kept = b""
        self._frames = 0

    def feed(self, data: bytes, every: int) -> tuple[bytes, int]:
        """Returns (bytes to pass on, in whole frames; number of repeats). An incomplete frame is
        kept for the next call."""
        data = self._kept + data
        at, repeats, out = 0, 0, []
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if not 0 < size <= FRAME_SIZE_MAX:  # no frames: pass it on as it is
                out.append(data[at:])
                at = len(data)
                break
            if at + 4 + size > len(data):
                break
            frame = data[at : at + 4 + size]
            out.append(frame)
            self._frames += 1
            if self._frames % every == 0:
                out.append(frame)
                repeats += 1
            at += 4 + size
        self._kept = data[at:]
        return b"".join(out), repeats

    def within(self, shape: object, limit: int, size: int) -> int:
        """How many of `size` further bytes are among the first `limit` since the shape came."""
        if self._counted is not shape:
            self._counted, self._passed = shape, 0
        before, self._passed = self._passed, self._passed + size
        return max(0, min(size, limit - before))

    def rest(self) -> bytes:
        """Returns the bytes of the incomplete frame when repeating has ended."""
        kept, self._kept = self._kept, b""
        return kept
