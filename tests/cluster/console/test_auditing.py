"""The audit log by the API: pages, filters, entries of what the console does itself."""

from __future__ import annotations

from typing import Any

from .conftest import MakeWorld
from .test_operating import one_dead, post, run


async def test_pages_filters_and_the_command(make_world: MakeWorld) -> None:
    async with make_world() as world:
        for name in ("a", "b", "c"):
            body = {"name": name, "queues": 1}
            assert (await world.call("POST", "/api/v1/topics", json=body))[0] == 200
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:  # until a page has no cursor
            page = await world.get("/api/v1/audit", "AuditPage", limit=2, **cursor)
            found += page["entries"]
            if page["cursor"] is None:
                break
            cursor = {"cursor": page["cursor"]}
        assert [row["target"] for row in found] == ["topic c", "topic b", "topic a"]
        assert {(row["via"], row["by"]) for row in found} == {("api", "admin")}
        assert (page["left_out"], page["damaged"]) == ([], 0)
        one = await world.get("/api/v1/audit", "AuditPage", target="topic b", outcome="done")
        assert [row["target"] for row in one["entries"]] == ["topic b"]
        assert one["command"] == "dledger audit --target 'topic b' --outcome done"
        by_command = await run(world, one["command"])
        assert [row["number"] for row in by_command] == [row["number"] for row in one["entries"]]
        late = await world.get("/api/v1/audit", "AuditPage", since_ms=9 * 10**12)
        assert late["entries"] == []
        for wrong in ("W10", "x", "eyJicm9rZXItYSI6LTF9", "eyJicm9rZXItYSI6InQifQ"):
            status, _ = await world.call("GET", "/api/v1/audit", params={"cursor": wrong})
            assert status == 400


async def test_a_browser_is_the_console(make_world: MakeWorld) -> None:
    async with make_world() as world:
        body = {"name": "a", "queues": 1}
        headers = {"Sec-Fetch-Site": "same-origin"}
        status, _ = await world.call("POST", "/api/v1/topics", json=body, headers=headers)
        assert status == 200
        (row,) = (await world.get("/api/v1/audit", "AuditPage"))["entries"]
        assert (row["via"], row["by"]) == ("console", "admin")


async def test_messages_that_are_sent_again_have_entries(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await one_dead(world)
        place: dict[str, Any] = {"topic": "T", "broker": "broker-a", "queue": 0, "offset": 0}
        sent = await post(world, "/api/v1/messages/resend", "Resent", **place)
        await run(world, sent["command"])
        path = "/api/v1/dead-letters/readers/resend"
        await post(world, path, "DeadLettersResent")  # a dry run
        letters = await post(world, path, "DeadLettersResent", dry_run=False)
        await run(world, letters["command"] + " --dry-run")
        await run(world, letters["command"])
        page = await world.get("/api/v1/audit", "AuditPage", target="group readers")
        assert [(row["verb"], row["via"]) for row in page["entries"]] == [
            ("dlq resend", "cli"),
            ("dlq resend", "api"),
        ]
        assert {row["command"] for row in page["entries"]} == {letters["command"]}
        page = await world.get("/api/v1/audit", "AuditPage", target="topic T")
        resent = [row for row in page["entries"] if row["verb"] == "message resend"]
        assert [row["via"] for row in resent] == ["cli", "api"]
        assert {row["command"] for row in resent} == {sent["command"]}
