"""[settings] of a run's file: settings of every node, checked as a node would check them.

Nodes read them when they start, which is late for a mistake, and simulated schedules start none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.local import plan
from cluster.local.node_files import check_sections, node_sections
from cluster.local.profile import BROKER, Profile
from cluster.settings.node import SECTIONS
from cluster.settings.settings import Settings, SettingsError


def as_options(table: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings as text by "section.key". A name without quotes that contains a dot, and
    [settings.raft], are tables in TOML."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict) and "." not in name:
            found |= {f"{name}.{key}": str(inner) for key, inner in value.items()}
        else:
            found[name] = str(value)
    return found


def check_options(options: Mapping[str, str]) -> None:
    """Raises ValueError for a key that no node has, with the nearest one, and for a value or a
    relation of values that no node would start with.
    """
    given = Settings(SECTIONS)
    try:
        for name, value in options.items():
            section, _, key = name.partition(".")
            if not key:
                raise ValueError(
                    f'[settings] {name} is no "section.key", as "raft.entry_size_max" is one'
                )
            given.add(section, key, value, "[settings]")
        members = tuple(plan.plan(3))
        made = Profile("local", members, dict(options))
        first = next(member for member in members if member.kind == BROKER)
        check_sections(node_sections(Path(), made, first))
    except SettingsError as error:
        raise ValueError(str(error)) from error
