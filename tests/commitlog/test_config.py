"""StoreConfig: RocketMQ's defaults, documented fields, impossible values refused by name."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.config import FlushMode, StoreConfig
from commitlog.errors import StoreConfigError

DEFAULT = StoreConfig()


def test_the_defaults_are_rocketmqs_and_valid() -> None:
    DEFAULT.validate()
    assert DEFAULT.commit_log_file_size == 1_073_741_824
    assert DEFAULT.consume_queue_file_size == 6_000_000
    assert DEFAULT.consume_queue_ext_file_size == 50_331_648
    assert DEFAULT.batch_queue_file_size == 13_800_000
    assert DEFAULT.index_geometry.file_size == 420_000_040
    assert DEFAULT.flush_mode is FlushMode("SYNC_FLUSH")  # the one that differs, on purpose


def test_every_field_is_documented_and_named_as_rocketmq_does() -> None:
    foreign = [setting.metadata["rocketmq"] for setting in fields(DEFAULT)]
    assert len(set(foreign) - {""}) == len(foreign) - foreign.count("")
    assert all(setting.metadata["help"].endswith((".", ".)")) for setting in fields(DEFAULT))


def test_the_sizes_of_the_golden_store_are_possible() -> None:
    golden = replace(
        DEFAULT,
        commit_log_file_size=16_384,
        consume_queue_file_size=400,
        batch_queue_file_size=460,
        index_slots=64,
        index_entries=40,
        body_size_max=8192,
    )
    golden.validate()
    assert golden.index_geometry.file_size == 1096


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"body_size_max": 1 << 30}, ("body_size_max = 1073741824", "commit_log_file_size")),
        ({"commit_log_file_size": 4_194_304}, ("body_size_max", "commit_log_file_size = 4194304")),
        ({"consume_queue_file_size": 21}, ("consume_queue_file_size = 21", "20")),
        ({"batch_queue_file_size": 47}, ("batch_queue_file_size = 47", "46")),
        ({"index_slots": 1 << 30}, ("index_slots = 1073741824", "index_entries = 20000000")),
        (
            {"flush_interval_ms": 20_000},
            ("flush_interval_ms = 20000", "flush_thorough_interval_ms = 10000"),
        ),
        (
            {"disk_used_max_percent": 86},
            ("disk_used_max_percent = 86", "disk_forced_percent = 85"),
        ),
        ({"disk_full_percent": 84}, ("disk_forced_percent = 85", "disk_full_percent = 84")),
    ],
)
def test_an_impossible_relation_names_both_values(
    changes: dict[str, Any], named: tuple[str, str]
) -> None:
    with pytest.raises(StoreConfigError) as caught:
        replace(DEFAULT, **changes).validate()
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize(
    "changes",
    [
        {"index_slots": 0},
        {"index_entries": 1},
        {"flush_interval_ms": 0},
        {"disk_full_percent": 100},
        {"query_hits_default": True},
        {"reserved_hours": 1.5},
        {"delete_hours": ()},
        {"delete_hours": (24,)},
        {"message_delay_level": "soon"},
        {"commit_log_file_size": 1 << 31},
        {"body_size_max": 9},
    ],
)
def test_an_impossible_value_is_named(changes: dict[str, Any]) -> None:
    with pytest.raises(StoreConfigError, match=next(iter(changes))):
        replace(DEFAULT, **changes).validate()


def test_every_setting_is_used() -> None:
    """One that nobody reads would promise what it does not do."""
    text = "".join(
        path.read_text("utf-8") for path in Path(commitlog.__file__).parent.rglob("*.py")
    )
    assert not [one.name for one in fields(DEFAULT) if not re.search(rf"\.{one.name}\b", text)]
