"""Settings by the API: shown with their origins, and changed while nodes run."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.client.admin import live_settings
from cluster.commands.errors import NOT_THERE, USAGE
from cluster.console.api import configuration
from cluster.errors import ServiceNotAvailable

from .conftest import MakeWorld, World
from .test_operating import run


async def row_of(world: World, key: str) -> dict[str, Any]:
    page = await world.get("/api/v1/settings", "Settings", which="all", filter=key)
    (row,) = [row for row in page["settings"] if row["key"] == key]
    return dict(row)


async def test_a_setting_is_changed_shown_and_taken_back(make_world: MakeWorld) -> None:
    async with make_world() as world:
        key = "broker.reserved_hours"
        row = await row_of(world, key)
        assert (row["value"], row["origin"], row["is_live"], row["set"]) == (
            *("72", "default", True, []),
        )
        status, found = await world.call(
            "PATCH", f"/api/v1/settings/{key}", schema="SettingChanged", json={"value": "48"}
        )
        assert status == 200, found
        assert (found["brokers"], found["failed"]) == (["broker-a"], None)
        assert found["command"] == "dledger config set reserved_hours 48"
        node = world.brokers.nodes[0]
        assert node is not None
        assert node.parts.admin.ports.live.now.reserved_hours == 48
        row = await row_of(world, key)
        assert (row["value"], row["set"]) == ("72", [{"broker": "broker-a", "value": "48"}])
        given = await world.get("/api/v1/settings", "Settings", which="given")
        assert key in [row["key"] for row in given["settings"]]
        assert await run(world, "dledger config live") == [
            {"broker": "broker-a", "key": key, "value": "48"}
        ]
        await run(world, "dledger config set broker.reserved_hours 36")
        assert (await row_of(world, key))["set"] == [{"broker": "broker-a", "value": "36"}]
        status, found = await world.call("PATCH", f"/api/v1/settings/{key}", json={"value": ""})
        assert found["command"] == "dledger config unset reserved_hours"
        assert (await row_of(world, key))["set"] == []
        page = await world.get("/api/v1/audit", "AuditPage", target="setting reserved_hours")
        assert [(row["via"], row["command"]) for row in page["entries"]] == [
            ("api", "dledger config unset reserved_hours"),
            ("cli", "dledger config set reserved_hours 36"),
            ("api", "dledger config set reserved_hours 48"),
        ]


async def test_what_does_not_change_is_refused(make_world: MakeWorld) -> None:
    async with make_world() as world:
        for key, value, wanted, kind in (
            ("broker.body_size_max", "1000", 409, "not-live"),
            ("raft.heartbeat_ms", "1000", 409, "not-live"),
            ("broker.nothing", "1", 404, "not-found"),
            ("broker.reserved_hours", "soon", 400, "invalid-request"),
            ("broker.reserved_hours", "1\nmaxMessageSize=1", 400, "invalid-request"),
        ):
            status, found = await world.call(
                "PATCH", f"/api/v1/settings/{key}", json={"value": value}
            )
            assert (status, found["error"]["id"]) == (wanted, kind), key
            assert found["error"]["try"], key


async def test_a_broker_name_that_failed_is_told(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(*_: Any, done: list[str], **__: Any) -> None:
        done.append("broker-a")
        raise ServiceNotAvailable("broker-b has no leader; ask again")

    async def none(*_: Any, **__: Any) -> None:
        raise ServiceNotAvailable("broker-a has no leader; ask again")

    async with make_world() as world:
        monkeypatch.setattr(configuration, "set_live", half)
        path = "/api/v1/settings/broker.reserved_hours"
        status, found = await world.call(
            "PATCH", path, schema="SettingChanged", json={"value": "48"}
        )
        assert status == 200
        assert found["failed"].startswith("done on broker-a, then: broker-b has no leader")
        monkeypatch.setattr(live_settings, "ask_leader", none)
        page = await world.get("/api/v1/settings", "Settings", which="all")
        assert page["live_error"].startswith("broker-a has no leader")
        assert page["settings"], "the node's own are told all the same"


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        (["set", "body_size_max", "1"], USAGE, "broker.body_size_max is read when a node starts"),
        (["set", "raft.heartbeat_ms", "1"], USAGE, "raft.heartbeat_ms is read when a node starts"),
        (["unset", "broker.reserved_hour"], NOT_THERE, "perhaps broker.reserved_hours"),
        (["set", "reserved_hours", ""], USAGE, "dledger config unset"),
    ],
)
def test_the_command_refuses_what_does_not_change_before_it_asks(
    words: list[str], code: int, wanted: str
) -> None:
    found = CliRunner().invoke(dledger, ["config", *words, "-a", "127.0.0.1:1"])
    assert found.exit_code == code
    assert wanted in " ".join(found.output.split())
