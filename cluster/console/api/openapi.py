"""The OpenAPI 3.1 document, made from the table of routes and the schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cluster.console.api.roles import Role
from cluster.console.api.schemas import SCHEMAS
from cluster.console.api.table import Parameter, Route

VERSION = "1.0.0"
#: Statuses that each route may answer with, beside 200 and its own.
COMMON = {
    400: "A value is missing, wrong or unknown.",
    401: "The token is missing or not known.",
    403: "The role does not allow it, the brokers refuse it, or the page is another site's.",
    500: "A mistake of the console; its log has the traceback.",
    502: "A broker answered with a failure of its own.",
    503: "The cluster cannot serve now: no leader, or no node answers.",
    504: "No answer in time; it may have happened.",
}
OWN = {
    404: "There is no such thing.",
    409: "Its present state does not allow it.",
    413: "It is too large.",
    415: "It is not sent as JSON.",
    429: "Too much at once; pause, then ask again.",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dledger",
            "version": VERSION,
            "description": "The cluster as the console shows it. Any node answers for all of it. "
            "Roles: " + ", ".join(role.label for role in Role) + "; each may do what those before "
            "it may. On loopback no token is asked for unless one is set.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    kind = "text/event-stream" if route.stream is not None else "application/json"
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.path.split("/")[3]],
        "x-role": route.role.label,
        "responses": {
            "200": {
                "description": "Done.",
                "content": {kind: {"schema": {"$ref": f"#/components/schemas/{route.answer}"}}},
            },
            **{str(status): _refusal(status) for status in sorted({*COMMON, *route.statuses})},
        },
    }
    if route.command:
        operation["x-command"] = route.command
    if listed := [_parameter(p) for p in route.parameters if p.place != "body"]:
        operation["parameters"] = listed
    if fields := [p for p in route.parameters if p.place == "body"]:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _body(fields)}},
        }
    return operation


def _operation_id(route: Route) -> str:
    parts = [part.strip("{}").replace("-", "_") for part in route.path.split("/")[3:]]
    return "_".join([route.method.lower(), *parts])


def _refusal(status: int) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Error"}}
    return {
        "description": COMMON.get(status) or OWN[status],
        "content": {"application/json": schema},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.help,
        "required": parameter.required,
        "schema": parameter.schema(),
    }


def _body(fields: list[Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {p.name: {**p.schema(), "description": p.help} for p in fields},
        "required": [p.name for p in fields if p.required],
        "additionalProperties": False,
    }
