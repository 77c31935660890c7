"""Our own requests for accounts: 31018 changes them, 31019 lists them.

31018   {"create": [row, …], "alter": [row, …], "put": [row, …], "delete": ["access key", …]}
        rows as in plain_acl.yml (cluster/core/access/accounts.py); all of it or nothing
        create    refused where the account is there and is not just so
        alter     the given fields of an account that is there; null takes a field away. A
                  secretKey takes the previous one away, also the same once more, unless
                  "keepSecret": true, by which the one until now counts as the previous one
        put       made, or made anew (an import)
        Bounded as every JSON body (cluster/protocol/json_body.py): 2,000,000 bytes, 20,000 values,
        1,000 rows a list.
31019   {"broker": "broker-a", "on": true, "level": 1, "accounts": [row without its secret, …]}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from cluster.broker.access.accounts.changes import account_row, changed_accounts
from cluster.broker.access.ports import AccessPorts
from cluster.broker.kernel.net.decisions import Decision, decided
from cluster.broker.kernel.net.request_bodies import json_object, json_rows
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.account_rows import without_scopes
from cluster.core.access.account_table import ACCOUNTS_MAX, without_secret
from cluster.core.access.accounts import PREVIOUS_SECRET
from cluster.core.access.needs import ADMIN
from cluster.errors import InvalidRequest, NotFound
from cluster.protocol.account_headers import ListAccountsRequest
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame

_PARTS = frozenset({"create", "alter", "put", "delete"})
WHAT = "a change of accounts"
KEEP_SECRET = "keepSecret"
ANSWER_BYTES_MAX = 8 * 1024 * 1024
"""Of one list; a frame that has twice as many is none."""


class ChangeAccounts(NamedTuple):
    """The body of 31018."""

    create: list[dict[str, Any]]
    alter: list[dict[str, Any]]
    put: list[dict[str, Any]]
    delete: list[str]


def read_change(frame: Frame) -> ChangeAccounts:
    """Raises InvalidRequest."""
    value = json_object(frame, WHAT)
    unknown = sorted(set(value) - _PARTS)
    if unknown:
        raise InvalidRequest(f"{WHAT} has no part {unknown[0][:40]!r}; remove it")
    if not value:
        raise InvalidRequest(f"{WHAT} names none; give create, alter, put or delete")
    rows = {name: [] for name in _PARTS} | value
    delete = rows.pop("delete")
    if not isinstance(delete, list) or not all(isinstance(key, str) for key in delete):
        raise InvalidRequest(f"{WHAT} deletes {str(delete)[:40]!r}; give a list of access keys")
    create, alter, put = (json_rows(rows, name, WHAT) for name in ("create", "alter", "put"))
    keys = [str(row.get("accessKey")) for row in (*create, *alter, *put)] + delete
    if len(keys) > ACCOUNTS_MAX:
        raise InvalidRequest(f"{WHAT} names {len(keys)}; {ACCOUNTS_MAX} is the limit")
    if len(set(keys)) < len(keys):
        twice = Counter(keys).most_common(1)[0][0]
        raise InvalidRequest(f"{WHAT} names {twice[:64]!r} twice; say once what it shall be")
    return ChangeAccounts(create, alter, put, delete)


def change_accounts(ports: AccessPorts, request: ChangeAccounts) -> Decision:
    """31018."""
    rows = [*request.put]
    rows += [_created(ports, row) for row in request.create]
    rows += [_altered(ports, row) for row in request.alter]
    for key in request.delete:
        existing_account(ports, key)
    return changed_accounts(ports, rows, request.delete)


def existing_account(ports: AccessPorts, key: str) -> dict[str, Any]:
    """The row of an account, in the form that is logged. Raises NotFound."""
    found = ports.state.accounts.get(key)
    if found is None:
        raise NotFound(
            f"the log has no account {key[:64]!r}; dledger account list shows them, and those of a "
            "node's file are changed there"
        )
    return without_scopes(found)


def _created(ports: AccessPorts, row: dict[str, Any]) -> dict[str, Any]:
    key = str(row.get("accessKey"))
    found = ports.state.accounts.get(key)
    if found is not None and without_scopes(found) != account_row(row):
        raise InvalidRequest(f"there is an account {key[:64]!r}; change it with account alter")
    return row


def _altered(ports: AccessPorts, row: dict[str, Any]) -> dict[str, Any]:
    return merged(existing_account(ports, str(row.get("accessKey"))), row)


def merged(found: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The account that is there, with the fields of an alteration. Raises InvalidRequest."""
    changed = {**found, **row}
    keep = changed.pop(KEEP_SECRET, False)
    if not isinstance(keep, bool):
        raise InvalidRequest(f"{KEEP_SECRET} is {str(keep)[:40]!r}; write true or false")
    old = found["secretKey"]
    if "secretKey" in row and not keep:
        changed[PREVIOUS_SECRET] = row.get(PREVIOUS_SECRET)
    elif changed["secretKey"] != old:  # else it is the same request once more
        changed[PREVIOUS_SECRET] = old
    return changed


def joined(rows: Iterable[Mapping[str, Any]], advice: str) -> bytes:
    """A JSON list of the rows. Raises InvalidRequest for one that is too long for an answer."""
    found, size = list[bytes](), 0
    for row in rows:
        found.append(orjson.dumps(row))
        size += len(found[-1]) + 1
        if size > ANSWER_BYTES_MAX:
            raise InvalidRequest(
                f"the answer would have more than {ANSWER_BYTES_MAX} bytes; {advice}"
            )
    return b"[" + b",".join(found) + b"]"


def list_accounts(ports: AccessPorts, call: Call, request: ListAccountsRequest) -> None:
    """31019."""

    def look() -> None:
        state = ports.state
        rows = joined(
            map(without_secret, state.accounts.rows()),
            "list users with mqadmin listUser, and the rights of one with getAcl",
        )
        body = {
            "broker": ports.config.broker_name,
            "on": ports.access.is_on,
            "level": state.level.value,
            "accounts": orjson.Fragment(rows),
        }
        call.answer(0, body=orjson.dumps(body))

    call.when_current(look)


ROUTES: dict[int, Handler[AccessPorts, Any]] = {
    RequestCode.CHANGE_ACCOUNTS: Handler(Who.LEADER, read_change, ADMIN, decided(change_accounts)),
    RequestCode.LIST_ACCOUNTS: Handler(
        Who.LEADER, fields(ListAccountsRequest), ADMIN, list_accounts
    ),
}
