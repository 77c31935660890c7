"""`dledger bench embed` in smoke size: three real processes, the figures it promises."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cluster.bench import disk, embed


def test_embed_measures_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "WINDOW_SECONDS", 0.05)
    monkeypatch.setattr(disk, "FILE_SIZE", 2 << 20)
    result = embed.run(asdict(embed.EmbedOptions.smoke(tmp_path)))
    one, many = result["windows"]
    assert (one["window"], many["window"]) == (1, 256)
    for row in (one, many):
        assert row["entries_per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["leader_cpu_us"] > 0
        assert row["follower_cpu_us"] > 0
    assert result["bars"]["disk_entries_per_second_max"] > 0
    assert isinstance(result["bars"]["window_1_p50_met"], bool)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_bars_are_judged_beside_the_disk() -> None:
    limits = disk.DiskLimits(0.1, 0.2, 1 << 20, 1072 * 10_000)
    rows = [
        {"window": 1, "entries_per_second": 1000.0, "p50_ms": 0.61},
        {"window": 1024, "entries_per_second": 7000.0, "p50_ms": 20.0},
    ]
    bars = embed._judge(embed.EmbedOptions(), limits, rows)["bars"]
    assert bars["entries_per_second_min"] == pytest.approx(7000)
    assert bars["entries_per_second_met"]
    assert bars["disk_share"] == pytest.approx(0.7)
    assert not bars["window_1_p50_met"]
    only_one = embed._judge(embed.EmbedOptions(), limits, rows[:1])["bars"]
    assert "entries_per_second_met" not in only_one, "what was not measured is not judged"


class Flapping(embed.Node):
    """A node that answers what the test says; no process."""

    def __init__(self, name: str, *answers: dict[str, Any]) -> None:
        self.name, self.answers = name, list(answers)

    def tell(self, **command: Any) -> None:
        self.asked = command["do"]

    def hear(self) -> dict[str, Any]:
        answer = self.answers.pop(0)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer


def test_an_election_within_a_measurement_has_it_taken_again() -> None:
    """Nodes that name several leaders are asked again, too; what else goes wrong is told."""
    n0, n1, cpu, done = {"leader": "n0"}, {"leader": "n1"}, {"cpu_seconds": 1.0}, {"entries": 1}
    moved = {"error": "NotLeader: ask n1"}
    old = Flapping("n0", n0, n0, moved, n1, cpu, cpu)
    new = Flapping("n1", n1, n0, n1, done, cpu, done, cpu)
    nodes: list[embed.Node] = [old, new]
    row = embed.load_leader(nodes, 1, embed.EmbedOptions())
    assert (row["entries"], row["leader_cpu_us"]) == (1, 0.0)
    broken = Flapping("n0", n0, {"error": "NodeFailed: its disk"})
    with pytest.raises(RuntimeError, match="its disk"):
        embed.load_leader([broken], 1, embed.EmbedOptions())
