"""Reads pending.toml: scenarios whose server part is not there yet, and what is missing."""

from __future__ import annotations

import tomllib
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "pending.toml"


def pending(client: str, scenario: str, version: str = "") -> str | None:
    """What is missing for a scenario, or None. A key may name one version: "trace@4.9.8"."""
    rows: dict[str, str] = _table().get(client, {})
    return rows.get(f"{scenario}@{version}") or rows.get(scenario)


def _table() -> dict[str, dict[str, str]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))
