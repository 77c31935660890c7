"""One weather after the other: the swarm parameters of a run (chaos/schedule.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.report.recorded import Recorded
from chaos.report.tables import table


def weathers(run: Recorded) -> str:
    """Table of the fault mixes: since when, the drawn values, and the kinds that each left out."""
    found: Mapping[str, Any] | Sequence[Mapping[str, Any]] = run.env.get("swarm") or ()
    rows = [found] if isinstance(found, Mapping) else found  # older runs had one for all their time
    return table(
        ("since (s)", "gaps (s)", "aimed at the leader", "length", "without"),
        [
            (
                f"{row.get('since', 0.0):g}",
                f"{row['gap_min']:g} to {row['gap_max']:g}",
                f"{100 * row['leader_aim']:g} %",
                f"{row['length']:g}",
                ", ".join(kind for kind, weight in row["weights"].items() if not weight) or "none",
            )
            for row in rows
        ],
    )
