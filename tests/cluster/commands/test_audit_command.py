"""`dledger audit` against a real node in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.commands import audit
from cluster.commands.connecting import Reach, connected
from cluster.commands.errors import USAGE

from .test_account_commands import one_node, said


async def rows_of(*arguments: str) -> list[dict[str, Any]]:
    return list(json.loads(await said(0, "audit", "-o", "json", *arguments)))


async def test_it_shows_who_did_what_and_chooses(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with one_node(tmp_path, new_address) as reach:
        for name in ("orders", "news"):
            await said(0, "topic", "create", name, "-q", "2", *reach)
        await said(0, "topic", "delete", "news", "--yes", *reach)
        rows = await rows_of(*reach)
        assert [(row["verb"], row["target"], row["via"]) for row in rows] == [
            ("topic create", "topic orders", "cli"),
            ("topic create", "topic news", "cli"),
            ("topic delete", "topic news", "cli"),
        ]
        assert rows[0]["command"] == "dledger topic create orders -q 2"
        assert "@" in rows[0]["by"]
        text = await said(0, "audit", *reach)
        assert text.splitlines()[0].split() == [
            "AT",
            "ACCOUNT",
            "VERB",
            "TARGET",
            "OUTCOME",
            "VIA",
            "ADDRESS",
        ]
        assert [row["target"] for row in await rows_of("--target", "orders", *reach)] == [
            "topic orders"
        ]
        assert [row["verb"] for row in await rows_of("-n", "1", *reach)] == ["topic delete"]
        assert await rows_of("--since", "2999-01-01T00:00:00", *reach) == []
        assert await rows_of("--outcome", "refused", *reach) == []
        assert "no time like" in await said(USAGE, "audit", "--since", "yesterday", *reach)


async def test_following_goes_on_where_the_list_ended(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WATCH_SECONDS", 0.01)
    async with one_node(tmp_path, new_address) as reach:
        await said(0, "topic", "create", "first", *reach)
        async with connected(Reach(reach[1])) as client:
            coming = audit._coming(client, {"broker-a": 0}, {})
            following = asyncio.ensure_future(anext(coming))
            for name in ("second", "third"):
                await said(0, "topic", "create", name, *reach)
            assert (await following)["target"] == "topic second"
            assert (await anext(coming))["target"] == "topic third"
            await coming.aclose()
