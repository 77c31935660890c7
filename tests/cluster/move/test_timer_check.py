"""Progress of timer messages in RocketMQ's file, written and read."""

from __future__ import annotations

from pathlib import Path

from cluster.core.apply import AppliedState
from cluster.core.internal_topics import DelaysPassed
from cluster.move.configs import read_configs
from cluster.move.timer_check import FILE_NAME, FILE_SIZE, read_timer_check, write_timer_check
from commitlog.files.system import OS_FILES
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from commitlog.records.record import HEADER
from dledger.core.types import Index

NOW = 1_700_000_000_000
V4 = pack_host(Host("10.0.0.1", 1))


def state_of(waits_ms: list[int | None]) -> AppliedState:
    """Timers in one queue, due in that many ms; None: delivered."""
    state, at, index = AppliedState(()), 0, 0
    for offset, wait_ms in enumerate(waits_ms):
        block = b"TIMER_DELAY_MS\x01%d\x02REAL_TOPIC\x01T\x02REAL_QID\x010\x02" % (wait_ms or 1)
        timer = at + 48
        for topic, queue_offset, origin in (
            ("rmq_sys_wheel_timer", offset, 0),
            *([("T", offset, timer)] if wait_ms is None else []),
        ):
            record = encode_record(
                topic_field(topic), block, b"x", 0, 0, 0, 1, V4, V4, 0, origin, queue_offset,
                at + 48, NOW,
            )  # fmt: skip
            header = HEADER.pack(1, 48 + len(record), index, 1, at, 0, 0, 0, len(record))
            state.apply(header + record, Index(index))
            at, index = at + 48 + len(record), index + 1
    return state


def test_what_waits_is_read_again_and_nothing_before_it(tmp_path: Path) -> None:
    write_timer_check(state_of([None, 90_000, None, 5_500]), tmp_path, OS_FILES)
    data = (tmp_path / "config" / FILE_NAME).read_bytes()
    assert len(data) == FILE_SIZE
    numbers = [int.from_bytes(data[at : at + 8], "big") for at in range(0, 56, 8)]
    assert numbers == [NOW, 0, 1, 1, 0, NOW, 1]


def test_everything_delivered(tmp_path: Path) -> None:
    write_timer_check(state_of([None, None]), tmp_path, OS_FILES)
    assert read_timer_check(tmp_path / "config", OS_FILES) == NOW
    configs = read_configs(OS_FILES, tmp_path)
    assert configs.delays == DelaysPassed({}, NOW)


def test_an_overdue_timer_is_not_called_delivered(tmp_path: Path) -> None:
    """It was due before the last record was stored, and the broker stopped before it came."""
    state = state_of([500])
    state.store_ms = NOW + 60_000
    write_timer_check(state, tmp_path, OS_FILES)
    read_ms = read_timer_check(tmp_path / "config", OS_FILES)
    state.delayed.replay_passed({}, read_ms)
    assert len(state.delayed) == 1


def test_no_timers_no_file(tmp_path: Path) -> None:
    write_timer_check(state_of([]), tmp_path, OS_FILES)
    assert not (tmp_path / "config").exists()
    assert read_timer_check(tmp_path / "config", OS_FILES) == 0
    assert read_configs(OS_FILES, tmp_path).delays is None
