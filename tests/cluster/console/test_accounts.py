"""Accounts by the API: secrets told once, rights changed, and an entry for each change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.client.admin.account_admin import SECRET_BYTES
from cluster.console.api import accounts
from cluster.errors import SendTimeout, ServiceNotAvailable

from .conftest import MakeWorld, World


async def change(world: World, method: str, path: str, schema: str, **body: Any) -> Any:
    status, found = await world.call(method, f"/api/v1{path}", schema=schema, json=body)
    assert status == 200, found
    return found


async def listed(world: World) -> dict[str, Any]:
    page = await world.get("/api/v1/accounts", "AccountPage")
    return {row["account"]: row for row in page["accounts"]}


async def test_accounts_are_made_changed_and_deleted(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([f"drawn-for-a-test-{n}" for n in range(3)])
    monkeypatch.setattr(accounts, "random_secret", lambda: next(drawn))
    async with make_world(tokens=True) as world:
        world.http.headers["Authorization"] = "Bearer the token of an admin"
        assert await listed(world) == {}
        status, found = await world.call(
            "POST", "/api/v1/accounts", json={"account": "the-chief", "admin": True}
        )
        assert (status, found["error"]["id"]) == (409, "first-account")
        assert "create console first" in found["error"]["try"]
        assert await listed(world) == {}
        console = {"account": "console", "admin": True}
        made = await change(world, "POST", "/accounts", "AccountChanged", **console)
        assert made["command"] == "dledger account create console --admin"
        assert made["secret"] is None, "the console's own account file has it"
        made = await change(
            world, "POST", "/accounts", "AccountChanged", account="writer", topics="orders=PUB|SUB"
        )
        assert made["secret"] == "drawn-for-a-test-0"
        assert made["command"] == "dledger account create writer --topic 'orders=PUB|SUB'"
        row = (await listed(world))["writer"]
        assert (row["topics"], row["status"], row["admin"]) == (["orders=PUB|SUB"], "enable", False)
        altered = await change(
            world,
            "PATCH",
            "/accounts/writer",
            "AccountChanged",
            enabled=False,
            groups="billing=SUB",
        )
        assert altered["secret"] is None
        assert altered["command"] == "dledger account alter writer --group billing=SUB --disable"
        row = (await listed(world))["writer"]
        assert (row["topics"], row["groups"]) == (["orders=PUB|SUB"], ["billing=SUB"])
        assert row["status"] == "disable"
        quota = {"max_messages": 100, "max_connections": 3}
        altered = await change(world, "PATCH", "/accounts/writer", "AccountChanged", **quota)
        assert altered["command"] == (
            "dledger account alter writer --max-messages 100 --max-connections 3"
        )
        quota = {"max_messages": 0}
        altered = await change(world, "PATCH", "/accounts/writer", "AccountChanged", **quota)
        assert altered["command"] == "dledger account alter writer --max-messages 0"
        row = (await listed(world))["writer"]
        assert (row["max_messages"], row["max_bytes"], row["max_connections"]) == (None, None, 3)
        again = await change(world, "PATCH", "/accounts/writer", "AccountChanged", new_secret=True)
        assert again["secret"] == "drawn-for-a-test-1"
        text = json.dumps(await world.get("/api/v1/audit", "AuditPage"))
        text += json.dumps(await listed(world))
        assert "drawn-for" not in text, "no answer after that one has a secret"
        assert "of-console" not in text
        for path, body, wanted in (
            ("/accounts/writer", {}, 400),
            ("/accounts/nobody-here", {"enabled": True}, 404),
        ):
            status, _ = await world.call("PATCH", f"/api/v1{path}", json=body)
            assert status == wanted, path
        boss = {"account": "the-chief", "admin": True}  # so the console's is not the last one
        await change(world, "POST", "/accounts", "AccountChanged", **boss)
        for method, body in (
            ("PATCH", {"new_secret": True}),
            ("PATCH", {"enabled": False}),
            ("PATCH", {"admin": False}),
            ("DELETE", {}),
        ):
            status, found = await world.call(method, "/api/v1/accounts/console", json=body)
            assert (status, found["error"]["id"]) == (409, "own-account"), (method, body)
        mine = {"admin": True, "topics": "orders=SUB"}
        await change(world, "PATCH", "/accounts/console", "AccountChanged", **mine)
        await change(world, "DELETE", "/accounts/the-chief", "Changed")
        deleted = await change(world, "DELETE", "/accounts/writer", "Changed")
        assert deleted["command"] == "dledger account delete writer"
        assert set(await listed(world)) == {"console"}
        page = await world.get(
            "/api/v1/audit", "AuditPage", target="account writer", outcome="done"
        )
        assert [(row["verb"], row["by"]) for row in page["entries"]] == [
            ("account delete", "admin"),
            *[("account alter", "admin")] * 4,
            ("account create", "admin"),
        ]


async def test_a_console_without_an_account_makes_no_first_one(make_world: MakeWorld) -> None:
    async with make_world() as world:
        body = {"account": "the-chief", "admin": True}
        status, found = await world.call("POST", "/api/v1/accounts", json=body)
        assert (status, found["error"]["id"]) == (409, "first-account")
        assert "set admin.account_file" in found["error"]["try"]
        page = await world.get("/api/v1/accounts", "AccountPage")
        assert (page["own"], page["asked_for"], page["total"]) == (None, False, 0)


async def test_a_drawn_secret_is_told_when_a_later_broker_name_fails(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names before it have the secret, and no later answer tells it."""

    async def half(*_: Any, done: list[str], **__: Any) -> None:
        done.append("broker-a")
        raise ServiceNotAvailable("broker-b has no leader; ask again")

    async def unknown(*_: Any, **__: Any) -> None:
        raise SendTimeout("no answer; look before you ask again")

    async def not_done(*_: Any, **__: Any) -> None:
        raise ServiceNotAvailable("broker-a has no leader; ask again")

    async with make_world(tokens=True) as world:
        world.http.headers["Authorization"] = "Bearer the token of an admin"
        console = {"account": "console", "admin": True}
        await change(world, "POST", "/accounts", "AccountChanged", **console)
        monkeypatch.setattr(accounts, "change_accounts", half)
        made = await change(world, "POST", "/accounts", "AccountChanged", account="writer")
        assert made["secret"]
        assert made["failed"].startswith("done on broker-a, then: broker-b has no leader")
        assert made["command"] == "dledger account create writer --secret-file FILE"
        asked = {"new_secret": True}
        made = await change(world, "PATCH", "/accounts/writer", "AccountChanged", **asked)
        assert made["secret"]
        assert made["command"] == "dledger account alter writer --secret-file FILE"
        monkeypatch.setattr(accounts, "change_accounts", unknown)
        made = await change(world, "POST", "/accounts", "AccountChanged", account="writer")
        assert made["secret"]
        assert "no broker name for certain" in made["failed"]
        monkeypatch.setattr(accounts, "change_accounts", not_done)
        status, _ = await world.call("POST", "/api/v1/accounts", json={"account": "writer"})
        assert status == 503, "no name has it, so there is nothing to tell"


def test_secrets_are_long_and_never_the_same() -> None:
    found = {accounts.random_secret() for _ in range(50)}
    assert len(found) == 50
    assert {len(secret) for secret in found} == {2 * SECRET_BYTES}
