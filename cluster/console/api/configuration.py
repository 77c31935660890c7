"""Settings of the node that is asked: value, origin, meaning; some change while nodes run.

Those stand in the logs of the broker names, and count before each node's own.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster.client.admin.live_settings import live_settings, set_live
from cluster.console.api.changes import command
from cluster.console.api.failures import ApiError
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.core.live_settings import LIVE
from cluster.errors import ClusterError
from cluster.settings.docs import describe
from cluster.settings.node import SECTIONS
from cluster.settings.values import to_toml

ALL, GIVEN = WHICH = ("all", "given")
DEFAULT = "default"
FILE_ORIGIN = "file "
LIVE_SECONDS_MAX = 3.0
"""That the list waits for the leaders."""


@functools.cache
def _meanings() -> Mapping[str, str]:
    """Key → its text in the manual."""
    return {
        f"{name}.{setting.name}": setting.text
        for name, kind in SECTIONS.items()
        for setting in describe(kind)
    }


async def list_settings(source: Source, values: Values) -> dict[str, Any]:
    """Settings by section, as in the file that conf/ has. Raises ClusterError."""
    logged, live_error = await _logged(source)
    wanted = (values["filter"] or "").lower()
    rows = [
        {
            "key": row["key"],
            "value": _text(row["value"]),
            "origin": row["origin"],
            "meaning": _meanings().get(str(row["key"]), ""),
            "is_live": _live_name(str(row["key"])) is not None,
            "set": [
                {"broker": broker, "value": found[name]}
                for broker, found in logged.items()
                if (name := _live_name(str(row["key"]))) in found
            ],
        }
        for row in source.settings
        if wanted in str(row["key"]).lower()
    ]
    if values["which"] != ALL:
        rows = [row for row in rows if row["origin"] != DEFAULT or row["set"]]
    files = {
        str(row["origin"]).removeprefix(FILE_ORIGIN)
        for row in source.settings
        if str(row["origin"]).startswith(FILE_ORIGIN)
    }
    return {
        "node": str(source.node_status().get("node_id", "")),
        "settings": rows,
        "live_error": live_error,
        "command": command("config", "show", *sorted(files), "--origin"),
    }


async def change_setting(source: Source, values: Values) -> dict[str, Any]:
    """Set a setting on every node of each broker name, or take it out of their logs again.

    Raises ApiError (404, 409), InvalidRequest, ClusterError when no broker name did.
    """
    key, text = values["key"], values["value"].strip()
    name = _live_name(key)
    if name is None:
        if key not in _meanings():
            raise ApiError(404, "not-found", f"there is no setting {key:.80}; GET /api/v1/settings")
        raise ApiError(
            409,
            "not-live",
            f"{key} is read when a node starts; write it into the settings file of every node and "
            "start them again, one by one",
        )
    done: list[str] = []
    failed = None
    try:
        await set_live(source.client.instance, name, text, done=done)
    except ClusterError as error:
        if not done:
            raise
        failed = f"done on {', '.join(done)}, then: {error}"
    words = ("set", name, text) if text else ("unset", name)
    return {"brokers": done, "failed": failed, "command": command("config", *words)}


def _live_name(key: str) -> str | None:
    section, _, name = key.partition(".")
    return name if section == "broker" and name in LIVE else None


async def _logged(source: Source) -> tuple[dict[str, dict[str, str]], str | None]:
    """Broker name → settings of its log, or why they are not known: the node's own are told."""
    try:
        async with asyncio.timeout(LIVE_SECONDS_MAX):
            return await live_settings(source.client.instance), None
    except TimeoutError:
        return {}, f"no answer within {LIVE_SECONDS_MAX:g} s; look again when a leader answers"
    except (ClusterError, ApiError) as error:
        return {}, str(error)


def _text(value: object) -> str | None:
    """As a settings file has it; None for a setting without a value."""
    if value is None:
        return None
    return str(value) if isinstance(value, str | Path) else to_toml(value)
