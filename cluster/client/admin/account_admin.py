"""Accounts of the log, on each broker name: listed, and changed alike on all of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from cluster.client.routing.client_instance import ClientInstance
from cluster.client.routing.leader_requests import ask_leader
from cluster.client.routing.routes import DEFAULT_TOPIC
from cluster.errors import ClusterError, NotFound, Outcome
from cluster.protocol.account_headers import ListAccountsRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.headers import encode
from cluster.protocol.json_body import ITEM_SIZE_MAX, ITEMS_MAX, ROWS_COUNT_MAX, read_answer

Row = Mapping[str, Any]

SECRET_BYTES = 16
"""Of a secret that is drawn, before they are written as hex digits."""
_ROOM_BYTES, _ROOM_ITEMS = 1_000, 100
"""Of a body, for what stands around the rows."""


def import_steps(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows in parts that one change can hold each; enabled administrators come first."""
    steps, count, size = list[list[Row]](), 0, 0
    for row in sorted(rows, key=_is_no_chief):
        body = orjson.dumps(row)
        items = sum(map(body.count, (b",", b"{", b"["))) + 1
        count, size = count + items, size + len(body) + 1
        if (
            not steps
            or len(steps[-1]) == ROWS_COUNT_MAX
            or count > ITEMS_MAX - _ROOM_ITEMS
            or size > ITEMS_MAX * ITEM_SIZE_MAX - _ROOM_BYTES
        ):
            steps.append([])
            count, size = items, len(body) + 1
        steps[-1].append(row)
    return steps


def _is_no_chief(row: Row) -> bool:
    return row.get("admin") is not True or row.get("status", "enable") != "enable"


def random_secret() -> str:
    """A secret for an account: 32 hex digits, drawn anew at each call."""
    return secrets.token_hex(SECRET_BYTES)


def may_be_changed(error: ClusterError, done: Iterable[str]) -> bool:
    """May some broker name have a change that ended in `error`, behind the names `done`?

    Then a secret that was drawn for it is in use, or may be, and has to be told all the same.
    """
    return any(done) or error.outcome is Outcome.UNKNOWN


def account_facts(row: Row) -> dict[str, Any]:
    """A row as commands and the console show it: without its secret, with defaults filled in."""
    policies = [f"{one['decision']} {one['resource']}" for one in row.get("policies") or ()]
    return {
        "account": row["accessKey"],
        "admin": bool(row.get("admin", False)),
        "status": row.get("status", "enable"),
        "topics": row.get("topicPerms") or [],
        "groups": row.get("groupPerms") or [],
        "default_topic": row.get("defaultTopicPerm", "DENY"),
        "default_group": row.get("defaultGroupPerm", "DENY"),
        "from": row.get("whiteRemoteAddress"),
        "sealed": row.get("sealed", "optional"),
        "take_over": row.get("takeOverProducers") or [],
        "policies": policies,
        "secrets": row.get("secrets", 2 if row.get("previousSecretKey") else 1),
        "max_messages": row.get("maxMessages"),
        "max_bytes": row.get("maxBytes"),
        "max_connections": row.get("maxConnections"),
    }


async def list_accounts(instance: ClientInstance) -> dict[str, dict[str, Any]]:
    """Broker name → {"on", "level", "accounts": [row without its secret]}.

    See cluster/broker/access/accounts/requests.py. Raises RequestNotSupported from a stock broker,
    ClusterError.
    """
    found = {}
    for broker in sorted(await instance.routes.registered()):
        request = encode(ListAccountsRequest(broker))
        code = RequestCode.LIST_ACCOUNTS
        answer = await ask_leader(instance, broker, DEFAULT_TOPIC, code, request)
        found[broker] = dict(read_answer(answer.body, "accounts"))
    return found


async def change_accounts(
    instance: ClientInstance,
    *,
    create: Iterable[Row] = (),
    alter: Iterable[Row] = (),
    put: Iterable[Row] = (),
    delete: Iterable[str] = (),
    done: list[str] | None = None,
) -> list[str]:
    """Change them on each broker name, in the order of the names. Returns the names that did.

    On one name all of it is done or nothing. What is so already is no change: where a broker name
    failed, ask again for the rest. A single account that is altered or deleted is passed over where
    a name has it not, so that such a name keeps no other one from it.

    Args:
        done: gets the names that did one by one, so it has them also when an error ends it.

    Raises NotFound for one that no name has; InvalidRequest, NotFound for one of several,
    ClusterError: names before it in the order are changed.
    """
    parts: dict[str, list[Any]] = {
        "create": [*create],
        "alter": [*alter],
        "put": [*put],
        "delete": [*delete],
    }
    single = [*parts["alter"], *parts["delete"]]
    passes_over = len(single) == 1 and not parts["create"] and not parts["put"]
    body = orjson.dumps(parts)
    changed = [] if done is None else done
    missing: NotFound | None = None
    for broker in sorted(await instance.routes.registered()):
        try:
            await ask_leader(
                instance, broker, DEFAULT_TOPIC, RequestCode.CHANGE_ACCOUNTS, {}, body=body
            )
        except NotFound as error:
            if not passes_over:
                raise
            missing = error
        else:
            changed.append(broker)
    if missing is not None and not changed:
        raise missing
    return changed
