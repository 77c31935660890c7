"""`dledger audit` against a real node in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.admin import audit as client_audit
from cluster.client.routing.routes import Routes
from cluster.commands import audit
from cluster.commands.connecting import Reach, connected
from cluster.commands.errors import USAGE
from cluster.errors import RequestNotSupported

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


async def test_a_broker_name_of_an_older_release_is_named_and_the_others_are_listed(
    tmp_path: Path, new_address: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_node(tmp_path, new_address) as reach:
        await said(0, "topic", "create", "orders", *reach)
        registered, one_page = Routes.registered, client_audit.audit_page

        async def with_another(self: Routes) -> dict[str, str]:
            return {**await registered(self), "older": "an old one"}

        async def page(instance: Any, broker: str, **rest: Any) -> Any:
            if broker == "older":
                raise RequestNotSupported("request code 31020 is not supported")
            return await one_page(instance, broker, **rest)

        monkeypatch.setattr(Routes, "registered", with_another)
        monkeypatch.setattr(client_audit, "audit_page", page)
        text = await said(0, "audit", *reach)
        assert "older is left out: its release has no audit log" in text
        assert "topic orders" in text


async def test_pages_of_several_broker_names_lose_and_double_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cursor of each name goes on behind the last of its rows that a page had."""
    times = {"a": [1, 4, 5, 9], "b": [2, 3, 8], "c": []}

    async def page(
        _: Any, broker: str, *, count: int, before: int | None = None, **__: Any
    ) -> client_audit.AuditPage:
        end = len(times[broker]) if before is None else before
        found = range(end - 1, max(end - count, 0) - 1, -1)
        rows = [{"broker": broker, "number": n, "at_ms": times[broker][n]} for n in found]
        return client_audit.AuditPage(rows, found[-1] if len(found) == count else None, 0)

    async def names() -> dict[str, str]:
        return dict.fromkeys(times, "")

    monkeypatch.setattr(client_audit, "audit_page", page)
    instance: Any = SimpleNamespace(routes=SimpleNamespace(registered=names))
    for count in (1, 2, 3, 10):
        found: list[int] = []
        places: dict[str, int | None] | None = None
        while places != {}:
            one = await client_audit.newest_entries(instance, count, places=places)
            found += [row["at_ms"] for row in one.rows]
            places = one.places
        assert found == [9, 8, 5, 4, 3, 2, 1], count
