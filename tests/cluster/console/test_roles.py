"""Who may ask what: every route with every role, and no page of another site."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from cluster.console.api.failures import ApiError
from cluster.console.api.roles import Role, Tokens
from cluster.console.api.routes import ROUTES
from cluster.console.api.table import Parameter, Route
from cluster.settings.node import AdminConfig

from .conftest import TOKENS, MakeWorld, World

ACCOUNTS = """
accounts:
  - accessKey: console
    secretKey: of-console
    admin: true
  - accessKey: another
    secretKey: of-another
    defaultTopicPerm: DENY
"""


def sample(route: Route) -> dict[str, Any]:
    """Arguments of a request that has a value for everything that is required."""
    values = {p.name: "none" if p.kind == "string" else 1 for p in route.parameters if p.required}
    path = route.path.format(**values)
    by_place = {
        place: {p.name: values[p.name] for p in route.parameters if p.place == place and p.required}
        for place in ("query", "body")
    }
    found: dict[str, Any] = {"path": path, "params": by_place["query"]}
    return found | ({"json": by_place["body"]} if route.changes else {})


async def status_of(world: World, route: Route, **headers: str) -> int:
    arguments = sample(route)
    url = world.base + arguments.pop("path")
    async with world.http.request(route.method, url, headers=headers, **arguments) as answer:
        if answer.status != 200 and answer.content_type != "text/plain":
            said = (await answer.json())["error"]
            assert all(said[name] for name in ("id", "message", "try")), said
        return answer.status


async def test_every_route_asks_for_its_role(make_world: MakeWorld) -> None:
    async with make_world(tokens=True) as world:
        for route in ROUTES:
            assert await status_of(world, route) == 401, route
            for wrong in ("Bearer", "Bearer wrong", f"Basic {TOKENS['admin']}", TOKENS["admin"]):
                assert await status_of(world, route, Authorization=wrong) == 401, route
            for role in Role:
                status = await status_of(world, route, Authorization=f"Bearer {TOKENS[role.label]}")
                allowed = role >= route.role
                assert (status not in (401, 403)) == allowed, (route.path, role, status)
                assert status < 500, (route.path, role, status)


async def test_the_page_comes_without_a_token_and_holds_no_data(make_world: MakeWorld) -> None:
    async with make_world(tokens=True) as world:
        for path in ("/", "/docs", "/api/v1/openapi.json"):
            async with world.http.get(world.base + path) as answer:
                assert answer.status == 200
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
        for path in ("/static/../http.py", "/static/%2e%2e%2fhttp.py", "/static/none.js"):
            async with world.http.get(world.base + path) as answer:
                assert answer.status == 401
        found = await world.call(
            "GET", "/api/v1/me", headers={"Authorization": f"Bearer {TOKENS['viewer']}"}
        )
        assert found[1]["role"] == "viewer"


async def test_on_loopback_without_tokens_the_page_of_another_site_is_refused(
    make_world: MakeWorld,
) -> None:
    async with make_world() as world:
        assert (await world.get("/api/v1/me", "Me"))["role"] == "admin"
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            status, said = await world.call("GET", "/api/v1/overview", headers=headers)
            assert (status, said["error"]["id"]) == (403, "other-host")
        status, said = await world.call("GET", "/api/v1/nothing")
        assert (status, said["error"]["id"]) == (404, "no-such-route")
        status, said = await world.call("PUT", "/api/v1/topics")
        assert (status, said["error"]["id"]) == (405, "no-such-method")
        async with world.http.options(world.base + "/api/v1/topics") as answer:
            assert answer.status == 405
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_the_console_uses_its_own_account(make_world: MakeWorld, tmp_path: Path) -> None:
    """Brokers with access control see the console's account, and refuse to others."""
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    async with make_world(tokens=True, acl_file=str(accounts)) as world:
        shown = {"Authorization": f"Bearer {TOKENS['viewer']}"}
        status, found = await world.call("GET", "/api/v1/overview", headers=shown)
        assert status == 200, found
        accounts.write_text(ACCOUNTS.replace("admin: true", "admin: false"))
        node = await world.brokers.leader()
        assert node.parts.access is not None
        node.parts.access.look_again()
        status, found = await world.call("GET", "/api/v1/overview", headers=shown)
        assert (status, found["error"]["id"]) == (403, "unauthorized")


def test_a_route_without_a_role_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="role"):
        dataclasses.replace(ROUTES[0], role=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="role"):
        Route(method="GET", path="/x", summary="", answer="Me", handler=ROUTES[0].handler)  # type: ignore[call-arg]


def test_roles_include_those_below() -> None:
    tokens = Tokens({Role.VIEWER: "a viewer's", Role.ADMIN: "an admin's"})
    assert tokens.role_of("Bearer an admin's") is Role.ADMIN > Role.OPERATOR > Role.VIEWER
    assert tokens.role_of("Bearer a viewer's") is Role.VIEWER
    assert tokens.role_of("Bearer \udcff") is None
    assert tokens.role_of("") is None
    assert Tokens({}).role_of("") is Role.ADMIN


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"viewer_token": "a long enough token"}, "token is not set"),
        ({"token": "a long enough token", "viewer_token": "short"}, "viewer_token has 5"),
        ({"token": "a long enough token", "viewer_token": "a long enough token"}, "the same"),
        ({"account_file": Path("account")}, "token is not"),
    ],
)
def test_settings_of_tokens_that_would_not_protect_are_refused(
    given: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        AdminConfig(listen=("10.0.0.1", 8080), **{"token": None, **given}).validate()


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("integer", ["", "x", "1.5", "-1", "9" * 17, "9" * 5000, "٣", True, None, 1.5, 11]),
        ("boolean", ["", "yes", 1, None]),
        ("string", ["", "x" * 11, "a\x00b", 7, None]),
    ],
)
def test_values_of_no_sense_are_refused_with_the_sentence_that_helps(
    kind: str, bad: list[Any]
) -> None:
    one = Parameter("n", "give a small one", kind=kind, required=True, most=10, length_max=10)
    for value in bad:
        with pytest.raises(ApiError, match="give a small one") as raised:
            one.read(value)
        assert raised.value.status == 400


def test_tokens_are_not_shown() -> None:
    config = AdminConfig(token="a long enough token", viewer_token="another long token")
    assert "long" not in repr(config)
