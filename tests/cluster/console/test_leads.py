"""Members of a group and the moves of its lead, by the API, the client and the command."""

from __future__ import annotations

from typing import Any

from cluster.client.admin.lead_moves import lead_moves
from cluster.commands.connecting import Reach
from cluster.commands.whole_cluster import _leads
from tests.waiting import eventually

from .conftest import MakeWorld, World


async def moves(world: World) -> list[Any]:
    (group,) = (await world.get("/api/v1/leads", "LeadMoves"))["groups"]
    return list(group["moves"])


async def test_members_are_listed_as_their_leader_has_them(make_world: MakeWorld) -> None:
    async with make_world(nodes=3) as world:
        found = await world.get("/api/v1/members", "Members")
        assert found["command"] == "dledger member list"
        (group,) = found["groups"]
        leader = (await world.brokers.leader()).config.node_id
        assert (group["name"], group["leader"], group["majority"]) == ("broker-a", leader, 2)
        assert (group["may_fail"], group["may_fail_now"]) == (1, 1)
        assert [row["node"] for row in group["members"]] == ["n0", "n1", "n2"]
        assert {row["standing"] for row in group["members"]} == {"voter"}
        assert [row["behind"] is None for row in group["members"]] == [
            row["node"] == leader for row in group["members"]
        ]


async def test_a_lead_that_is_handed_over_and_one_that_is_lost_are_told_apart(
    make_world: MakeWorld,
) -> None:
    async with make_world(nodes=3) as world:
        first = (await world.brokers.leader()).config.node_id
        (begun,) = await moves(world)
        assert (begun["before"], begun["leader"], begun["why"]) == (None, first, "")
        second = next(name for name in ("n1", "n2") if name != first)
        await world.mq.admin().transfer_leader("broker-a", second)
        asked = await moves(world)
        newest = asked[0]
        assert (newest["before"], newest["leader"]) == (first, second)
        assert newest["why"] == "handed-over"
        assert asked[1]["term"] < newest["term"]
        assert (await world.get("/api/v1/leads", "LeadMoves", limit=1))["groups"][0][
            "moves"
        ] == asked[:1]

        await world.brokers.stop_node(int(second[1:]))

        async def moved() -> bool:
            return (await moves(world))[0]["before"] == second

        await eventually(moved, "the move of the lead from the node that has stopped")
        rows = await _leads(Reach(address=world.address))
        assert [row["to"] for row in rows][:2] == [first, second]
        assert list(rows[-1]) == ["time", "group", "term", "from", "to", "why"]
        (told,) = await lead_moves(world.mq.instance)
        assert told.since_ms is not None
        assert len(told.left_out) <= 1, "the node that has stopped"


async def test_the_api_hands_the_lead_over(make_world: MakeWorld) -> None:
    async with make_world(nodes=3) as world:
        first = (await world.brokers.leader()).config.node_id
        second = next(name for name in ("n1", "n2") if name != first)
        body = {"broker": "broker-a", "node": second}
        status, done = await world.call("POST", "/api/v1/leads", schema="LeadMoved", json=body)
        assert (status, done["leader"]) == (200, second), done
        assert done["command"] == f"dledger leader move broker-a {second}"
        newest = (await moves(world))[0]
        assert (newest["before"], newest["leader"], newest["why"]) == (first, second, "handed-over")
        for wrong, wanted in (
            ({"broker": "broker-z"}, (404, "broker-not-found")),
            ({"broker": "broker-a", "node": "n9"}, (400, "invalid-request")),
            ({"node": "n1"}, (400, "missing-value")),
        ):
            status, said = await world.call("POST", "/api/v1/leads", json=wrong)
            assert (status, said["error"]["id"]) == wanted, said
        assert (await moves(world))[0] == newest, "what was refused moved nothing"


async def test_a_lead_that_stays_is_no_error_of_the_server(make_world: MakeWorld) -> None:
    """A single node has none to hand it over to."""
    async with make_world() as world:
        status, said = await world.call("POST", "/api/v1/leads", json={"broker": "broker-a"})
        assert (status, said["error"]["id"], said["error"]["retriable"]) == (
            409,
            "planned-move",
            True,
        ), said
