"""`dledger bench consume`, small: the same code as the published run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from cluster.bench import consume


def test_smoke(tmp_path: Path) -> None:
    """Each mode reads all messages once and reports what they cost."""
    result = consume.run(asdict(consume.ConsumeOptions.smoke(tmp_path)))
    rows = {row["mode"]: row for row in result["rows"]}
    assert set(rows) == {
        consume.EACH,
        consume.BATCH,
        consume.PULLS_32,
        consume.BLOCKING_EACH,
        consume.BLOCKING_BATCH,
    }
    count = rows[consume.EACH]["messages"]
    assert count == (1 << 20) // (1024 + 250) // 256 * 256
    for mode in rows.keys() - {consume.PULLS_32}:
        assert rows[mode]["bytes"] == 1024 * count
    assert 1100 * count < rows[consume.PULLS_32]["bytes"] < 1400 * count, "whole records"
    for row in rows.values():
        assert row["messages_per_second"] > 0
        assert row["client_cpu_us"] > 0
