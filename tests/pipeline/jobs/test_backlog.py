"""Counts equal a plain count; backlog is what was not read; the page shows it."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog.errors import StoreUsageError
from pipeline.jobs import counts as module
from pipeline.jobs.backlog import count_log, positions_of, positions_of_store, report
from pipeline.jobs.counts import COUNTS, count_batches, merged
from pipeline.jobs.page import LINES_MAX, page, plot
from pipeline.jobs.workers import Processes

from .stores import DLEDGER, put

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("queue", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", COUNTS.field("minute").type),
        ("value", pa.binary()),
    ]
)
ROW = st.tuples(
    st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 300), st.binary(max_size=5)
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ROW, max_size=60), st.integers(1, 7), st.integers(1, 200))
def test_counts_are_plain_counts(
    rows: list[tuple[str, int, int, bytes]], step: int, kept: int
) -> None:
    module.PART_ROWS_MAX, before = kept, module.PART_ROWS_MAX
    try:
        table = [
            {
                "topic": t,
                "queue": q,
                "offset": n,
                "timestamp": BEGIN + timedelta(seconds=s),
                "value": v,
            }
            for n, (t, q, s, v) in enumerate(rows)
        ]
        parts = [
            pa.RecordBatch.from_pylist(table[at : at + step], SCHEMA)
            for at in range(0, len(table), step)
        ]
        found = merged(pa.Table.from_batches([b]) for b in count_batches(parts)).to_pylist()
    finally:
        module.PART_ROWS_MAX = before
    expected: Counter[tuple[str, int, int]] = Counter()
    size: Counter[tuple[str, int, int]] = Counter()
    for topic, queue, seconds, value in rows:
        expected[topic, queue, seconds // 60] += 1
        size[topic, queue, seconds // 60] += len(value)
    keys = [
        (r["topic"], r["queue"], int((r["minute"] - BEGIN).total_seconds()) // 60) for r in found
    ]
    assert keys == sorted(expected)
    assert [r["messages"] for r in found] == [expected[key] for key in keys]
    assert [r["bytes"] for r in found] == [size[key] for key in keys]


def counted(*rows: tuple[str, int, int, int, int]) -> pa.Table:
    """(topic, queue, minute, first, last)"""
    return pa.Table.from_pylist(
        [
            {
                "topic": topic,
                "queue": queue,
                "minute": BEGIN + timedelta(minutes=minute),
                "messages": last - first + 1,
                "bytes": 10 * (last - first + 1),
                "first": first,
                "last": last,
            }
            for topic, queue, minute, first, last in rows
        ],
        COUNTS,
    )


def test_what_is_unread() -> None:
    table = counted(("t", 0, 0, 0, 9), ("t", 0, 1, 10, 29), ("t", 1, 1, 0, 4), ("u", 0, 0, 0, 1))
    table_of = {"t@slow": {"0": 5}, "t@done": {"0": 30, "1": 5}, "gone@g": {"0": 1}}
    found = report(table, positions_of({"offsetTable": table_of}), BEGIN + timedelta(minutes=10))
    assert [(r.topic, r.minute.minute, r.messages, r.bytes) for r in found.throughput] == [
        ("t", 0, 10, 100),
        ("t", 1, 25, 250),
        ("u", 0, 2, 20),
    ]
    assert [(r.group, r.minute.minute, r.messages) for r in found.unread] == [
        ("slow", 0, 5),
        ("slow", 1, 25),
    ]
    groups = {r.group: r for r in found.groups}
    assert (groups["slow"].messages, groups["slow"].oldest_age_s) == (30, 600.0)
    assert (groups["done"].messages, groups["done"].oldest) == (0, None)
    assert groups["g"].messages == 0
    kinds = Counter(str(row["kind"]) for row in found.rows())
    assert kinds == {"throughput": 3, "unread": 2, "backlog": 3}
    json.dumps(found.rows())


def test_of_a_store(tmp_path: Path) -> None:
    put(tmp_path, range(90))
    counts = count_log(tmp_path, workers=Processes(2))
    assert sum(row["messages"] for row in counts.to_pylist()) == 90
    with pytest.raises(StoreUsageError, match="positions"):
        positions_of_store(tmp_path / "nothing")
    positions = positions_of_store(DLEDGER)
    found = report(count_log(DLEDGER), positions)
    assert positions
    assert {row.topic for row in found.groups} == {topic for topic, _ in positions}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        assert not any(value and "//" in value for name, value in attrs if name in ("src", "href"))


def test_the_page() -> None:
    table = counted(("<b>", 0, 0, 0, 9), ("<b>", 0, 3, 10, 29))
    found = report(table, positions_of({"offsetTable": {"<b>@g": {"0": 5}}}))
    text = page(found)
    assert "<b>" not in text
    tags = Tags()
    tags.feed(text)
    assert (tags.seen["svg"], tags.seen["polyline"], tags.seen["circle"]) == (2, 2, 4)
    empty = page(report(counted(), {}))
    assert "No group has a position" in empty
    many = {f"t{n}": [(BEGIN, float(n))] for n in range(LINES_MAX + 2)}
    assert "and 2 lower ones" in plot(many)
