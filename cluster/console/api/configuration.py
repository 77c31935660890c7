"""Settings of the node that is asked: value, origin, meaning. None changes while it runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.console.api.changes import command
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.settings.docs import describe
from cluster.settings.node import SECTIONS
from cluster.settings.values import to_toml

ALL, GIVEN = WHICH = ("all", "given")
DEFAULT = "default"
FILE_ORIGIN = "file "


@functools.cache
def _meanings() -> Mapping[str, str]:
    """Key → its text in the manual."""
    return {
        f"{name}.{setting.name}": setting.text
        for name, kind in SECTIONS.items()
        for setting in describe(kind)
    }


async def list_settings(source: Source, values: Values) -> dict[str, Any]:
    """Settings by section, as in the file that conf/ has."""
    wanted = (values["filter"] or "").lower()
    rows = [
        {
            "key": row["key"],
            "value": _text(row["value"]),
            "origin": row["origin"],
            "meaning": _meanings().get(str(row["key"]), ""),
        }
        for row in source.settings
        if wanted in str(row["key"]).lower()
        and (values["which"] == ALL or row["origin"] != DEFAULT)
    ]
    files = {
        str(row["origin"]).removeprefix(FILE_ORIGIN)
        for row in source.settings
        if str(row["origin"]).startswith(FILE_ORIGIN)
    }
    return {
        "node": str(source.node_status().get("node_id", "")),
        "settings": rows,
        "command": command("config", "show", *sorted(files), "--origin"),
    }


def _text(value: object) -> str | None:
    """As a settings file has it; None for a setting without a value."""
    if value is None:
        return None
    return str(value) if isinstance(value, str | Path) else to_toml(value)
