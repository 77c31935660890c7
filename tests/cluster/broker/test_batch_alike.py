"""Batches made into records all at once: the same bytes as one by one, or left to that (R8)."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from cluster.broker.produce import send_batch
from cluster.broker.produce.send_batch import usual_records
from commitlog.records import accel

PRODUCER = b"__PID\x01p%c.1\x02__SEQ\x01" % ord("%")  # a % in it is no format


def item(number: int, body: bytes, tail: bytes = b"UNIQ_KEY\x01A7\x02", flag: int = 0) -> bytes:
    properties = PRODUCER + b"%d\x02" % number + tail
    head = struct.pack(">iiiii", 22 + len(body) + len(properties), 7, 9, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


def items(count: int, number: int = 20, size: int = 40) -> list[bytes]:
    chance = random.Random(count)
    return [item(number + each, chance.randbytes(size)) for each in range(count)]


def made(data: bytes, number: int = 20) -> list[bytes]:
    request = SimpleNamespace(sender="", body=data, born_timestamp_ms=1_700_000_000_123)
    cursor = SimpleNamespace(next=number, head=PRODUCER)
    topic = b"\x06TopicA"
    target = SimpleNamespace(
        sender="", wanted=cursor, queue_id=3, row={3: 1000}, topic=topic, sys_flag=0,
        reconsume_times=0, fixed_size=88 + len(topic) + 2,
    )  # fmt: skip
    host = bytes([127, 0, 0, 1, 0, 0, 42, 7])
    client = SimpleNamespace(born_host=host)
    path = SimpleNamespace(store_host=host)
    batch = SimpleNamespace(stamp_ms=1_700_000_000_456)
    return [bytes(record) for record in usual_records(path, client, request, target, batch)]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def unload_afterwards() -> Iterator[None]:
    was_loaded = accel.is_loaded()
    yield
    if not was_loaded:
        accel.unload()


def both(data: bytes, number: int = 20) -> tuple[list[bytes], list[bytes]]:
    if not accel.load():
        pytest.skip("needs numpy")
    fast = made(data, number)
    accel.unload()
    return fast, made(data, number)


@pytest.mark.parametrize("count", [1, 15, 16, 60])
def test_the_same_records(count: int) -> None:
    fast, plain = both(b"".join(items(count)))
    assert fast == plain
    assert len(fast) == count


def test_alike_ones_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_batch, "_VARIES", SimpleNamespace(pack=None))
    accel.load()
    assert len(made(b"".join(items(16)))) == 16


def test_numbers_that_grow_a_digit_and_mixed_sizes() -> None:
    for data, number in (
        (b"".join(items(30, 90)), 90),
        (b"".join([*items(20), item(40, b"longer than all the others before it......x")]), 20),
        (b"".join([*items(20), item(40, bytes(40), flag=5)]), 20),
    ):
        fast, plain = both(data, number)
        assert fast == plain
        assert len(fast) in (21, 30)


def wrong() -> Iterator[tuple[str, bytes]]:
    good = items(20)
    yield "a number is skipped", b"".join([*good[:9], item(30, bytes(40)), *good[10:]])
    yield "numbers begin elsewhere", b"".join(items(20, 21))
    yield "another producer", b"".join(good).replace(PRODUCER, PRODUCER.replace(b"p", b"q"), 1)
    delayed = item(29, bytes(40), tail=b"DELAY\x013\x02A7\x02B\x01C\x02"[:12])
    assert len(delayed) == len(good[9])
    yield "one is delayed", b"".join([*good[:9], delayed, *good[10:]])
    yield "cut off", b"".join(good)[:-1]
    body_size = bytearray(b"".join(good))
    body_size[len(good[0]) * 5 + 19] -= 1
    yield "one states another body size", bytes(body_size)


@pytest.mark.parametrize(("why", "data"), list(wrong()))
def test_what_is_not_usual_is_left_to_the_slow_way(why: str, data: bytes) -> None:
    fast, plain = both(data)
    assert fast == plain == [], why


@pytest.mark.parametrize("seed", range(100))
def test_any_wrong_byte_gives_the_same(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(b"".join(items(20)))
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    fast, plain = both(bytes(data))
    assert fast == plain
