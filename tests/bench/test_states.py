"""`dledger bench states` in smoke size: three phases, states that are really written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from cluster.bench import states


def test_states_measures_what_it_promises(tmp_path: Path) -> None:
    result = states.run(asdict(states.StatesOptions.smoke(tmp_path)))
    full, without, with_states = (result[name] for name in ("full", "without", "with"))
    assert full["entries_per_second"] > 0
    for row in (without, with_states):
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["entries"] > 0
    assert without["states_written"] == [0, 0, 0]
    assert max(with_states["states_written"]) > 0, "files of 1 MiB begin all the time"
    assert result["bars"]["p99_ratio"] == with_states["p99_ms"] / without["p99_ms"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
