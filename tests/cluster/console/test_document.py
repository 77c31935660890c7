"""The document is OpenAPI 3.1, says what the routes do, and no request of no sense breaks them."""

from __future__ import annotations

import json
import random
import urllib.parse
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import yarl

from cluster.console.api.openapi import document
from cluster.console.api.roles import Role
from cluster.console.api.routes import ROUTES
from cluster.console.api.schemas import SCHEMAS

from .conftest import TOKENS, MakeWorld, World
from .shapes import check

NAMES = (
    "T",
    "readers",
    "%RETRY%readers",
    "%DLQ%readers",
    "TBW102",
    "nothing",
    "RMQ_SYS_TRACE_TOPIC",
)
JUNK: tuple[Any, ...] = (
    *(
        "",
        " ",
        "\x00",
        "a" * 300,
        "%2F",
        "../..",
        "'\";--",
        "\u202e",
        "🦀",
        "-1",
        "0",
        "1e9",
        "null",
    ),
    *("9" * 30, "true", "[]", "{}", "WzEsMl0", "bnVsbA", "W1siYiIsMCwwLDFdXQ"),
)
JUNK_JSON: tuple[Any, ...] = (None, True, -1, 1.5, [], {}, 1 << 60, [[]], {"a": 1})


def operations() -> list[tuple[str, str, Mapping[str, Any]]]:
    paths = document(ROUTES)["paths"]
    return [(path, method, row) for path, by in paths.items() for method, row in by.items()]


def test_every_route_is_in_the_document_with_its_role() -> None:
    found = {(method.upper(), path): row["x-role"] for path, method, row in operations()}
    assert found == {(route.method, route.path): route.role.label for route in ROUTES}
    assert len(found) == len(ROUTES), "no two routes are the same"
    ids = [row["operationId"] for _, _, row in operations()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    text = json.dumps(document(ROUTES))
    named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named == set(SCHEMAS)


def value_for(schema: Mapping[str, Any], dice: random.Random, *, is_json: bool) -> Any:
    """Mostly one that fits, sometimes anything."""
    if dice.random() < 0.3:
        return dice.choice((*JUNK, *JUNK_JSON) if is_json else JUNK)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        return dice.choice([low, high, min(high, low + 1), dice.randint(low, high)])
    if schema["type"] == "boolean":
        return dice.choice([True, False]) if is_json else dice.choice(["true", "false"])
    return dice.choice(NAMES)


def request_for(path: str, row: Mapping[str, Any], dice: random.Random) -> tuple[str, Any]:
    """Address and JSON body of one request."""
    query: list[tuple[str, Any]] = []
    for one in row.get("parameters", ()):
        if one["in"] == "path":
            value = str(value_for(one["schema"], dice, is_json=False)) or "x"
            path = path.replace("{" + one["name"] + "}", urllib.parse.quote(value, safe=""))
        elif one["required"] or dice.random() < 0.4:
            query.append((one["name"], value_for(one["schema"], dice, is_json=False)))
    if dice.random() < 0.05:
        query.append(("unknown", "1"))
    body = None
    if "requestBody" in row:
        schema = row["requestBody"]["content"]["application/json"]["schema"]
        body = {
            name: value_for(one, dice, is_json=True)
            for name, one in schema["properties"].items()
            if name in schema["required"] or dice.random() < 0.4
        }
    return path + ("?" + urllib.parse.urlencode(query) if query else ""), body


async def fuzz(world: World, seed: int, count: int, role: str | None) -> Counter[int]:
    """Ask; each answer is one that the document names, and none is a mistake of the server."""
    dice, found = random.Random(seed), Counter[int]()
    headers = {"Authorization": f"Bearer {TOKENS[role]}"} if role else {}
    for number in range(count):
        path, method, row = dice.choice(operations())
        address, body = request_for(path, row, dice)
        said: dict[str, Any] = {"json": body} if body is not None else {}
        url = yarl.URL(world.base + address, encoded=True)
        async with world.http.request(method, url, headers=headers, **said) as answer:
            where = f"seed {seed}, case {number}: {method} {address} {body}"
            found[answer.status] += 1
            assert answer.status < 500, f"{where}: {await answer.text()}"
            known = answer.status == 404 or str(answer.status) in row["responses"]
            assert known, f"{where}: {answer.status}"
            if answer.content_type == "text/event-stream":
                continue  # it goes on; to leave it is what a client does
            value = await answer.json()
            kind = "Error"
            if answer.status == 200:
                content = row["responses"]["200"]["content"]["application/json"]
                kind = content["schema"]["$ref"].rpartition("/")[2]
            check(value, kind, where)
    return found


@pytest.mark.parametrize("role", [None, *(role.label for role in Role)])
async def test_requests_of_no_sense_are_answered(make_world: MakeWorld, role: str | None) -> None:
    async with make_world(tokens=role is not None) as world:
        await world.mq.admin().create_topic("T", 2)
        async with world.mq.producer() as producer:
            await producer.send("T", b"one", key="nothing")
        found = await fuzz(world, 1, 150, role)
        assert found[200] > 10
        assert found[400] > 10


@pytest.mark.long
async def test_five_thousand_requests_of_no_sense(make_world: MakeWorld) -> None:
    async with make_world() as world:
        await world.mq.admin().create_topic("T", 2)
        found = await fuzz(world, 2, 5000, None)
        assert found[200] > 500
