"""`scripts/bench embed`: what is made of the rows, and each subject once in smoke size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.harness.toolchains import Missing
from tests.peers import embed


def row(subject: str, place: str, window: int, rate: float, p50: float) -> dict[str, Any]:
    return {
        "round": 0, "subject": subject, "place": place, "window": window,
        "entries_per_second": rate, "p50_ms": p50, "p99_ms": 2 * p50, "leader_cpu_us": 1.0,
        "follower_cpu_us": 1.0, "others_share": 0.1,
    }  # fmt: skip


def test_ratios_are_of_medians_and_against_the_best_peer() -> None:
    rows = [
        *(row("ours", "leader", 1024, rate, 9.0) for rate in (10.0, 50.0, 30.0)),
        row("ours", "follower", 1024, 11.0, 9.0),
        row("hashicorp", "leader", 1024, 8.0, 9.0),
        row("dragonboat", "leader", 1024, 9.0, 9.0),
        row("dragonboat", "follower", 1024, 10.0, 9.0),
        row("ours", "leader", 1, 1.0, 0.5),
        row("our dict", "leader", 1024, 5.0, 9.0),
    ]
    ratios = {bar.what: (ratio, embed.met(bar, ratio)) for bar, ratio in embed.judged(rows)}
    assert ratios == {
        "from the leader ÷ the best": (3.0, True),
        "from a follower ÷ the best": (1.1, False),
    }, "a bar whose peer was not measured is not judged"
    rows.append(row("hashicorp", "leader", 1, 1.0, 1.0))
    ratios = {bar.what: (ratio, embed.met(bar, ratio)) for bar, ratio in embed.judged(rows)}
    assert ratios["one in flight, p50 ÷ hashicorp"] == (0.5, True)
    assert "| ours | leader | 1,024 | 30 | 9.00 |" in embed.table(rows)
    assert "| from a follower ÷ the best | 1.10 | ≥ 1.2 | no |" in embed.table(rows)


@pytest.mark.long
def test_each_subject_is_measured(tmp_path: Path) -> None:
    try:
        rows = embed.run(
            embed.Options(1, (1, 16), 0.3, 0.1, folder=str(tmp_path), file=str(tmp_path / "rows"))
        )
    except Missing as missing:
        pytest.skip(str(missing))
    assert len(rows) == len((tmp_path / "rows").read_text().splitlines())
    measured = {(row["subject"], row["place"]) for row in rows}
    assert measured == {(one.name, place) for one in embed.SUBJECTS for place in one.places}
    assert all(row["entries"] > 0 and row["leader_cpu_us"] > 0 for row in rows)
