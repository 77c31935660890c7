"""Accounts of the log and their rights. A secret is told once, by the answer that draws it.

The console's own account (`admin.account_file`) is made first, with the secret of its file, and
nothing that would end it is done here: each request of the console would be refused from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cluster.client.admin.account_admin import (
    account_facts,
    change_accounts,
    list_accounts,
    may_be_changed,
    random_secret,
)
from cluster.console.api.changes import command
from cluster.console.api.failures import ApiError
from cluster.console.api.paging import page_of_names
from cluster.console.api.source import Source
from cluster.console.api.table import Values
from cluster.errors import ClusterError

PERMISSIONS = ("DENY", "PUB", "SUB", "PUB|SUB")
_FIELDS = {
    "admin": "admin",
    "topics": "topicPerms",
    "groups": "groupPerms",
    "default_topic": "defaultTopicPerm",
    "default_group": "defaultGroupPerm",
    "max_messages": "maxMessages",
    "max_bytes": "maxBytes",
    "max_connections": "maxConnections",
}
QUOTAS = ("max_messages", "max_bytes", "max_connections")
_LISTS = {"topics": "--topic", "groups": "--group"}


async def list_of_accounts(source: Source, values: Values) -> dict[str, Any]:
    """By name, a row for each broker name that has it. Raises RequestNotSupported."""
    told = await list_accounts(source.client.instance)
    rows = [
        {"broker": broker, **account_facts(row)}
        for broker, found in told.items()
        for row in found["accounts"]
    ]
    names, cursor = page_of_names(sorted({row["account"] for row in rows}), values)
    shown = set(names)
    return {
        "accounts": sorted(
            (row for row in rows if row["account"] in shown),
            key=lambda row: (row["account"], row["broker"]),
        ),
        "total": len({row["account"] for row in rows}),
        "asked_for": all(found["on"] for found in told.values()),
        "own": None if (own := source.client.config.account) is None else own.access_key,
        "cursor": cursor,
        "command": command("account", "list"),
    }


async def create_account(source: Source, values: Values) -> dict[str, Any]:
    """Create an account; its secret is drawn here, but the console's own has that of its file.

    Raises InvalidRequest, ApiError (409) for a first account that is not the console's own.
    """
    own = source.client.config.account
    is_own = own is not None and own.access_key == values["account"]
    if not is_own:
        await _check_own_is_first(source)
    secret = None if is_own else random_secret()
    kept = own.secret_key if own is not None and is_own else secret
    row = {"accessKey": values["account"], "secretKey": kept, **_rights(values)}
    said = ("create", values["account"], *_options(values))
    return await _changed(source, values["account"], secret, said, create=[row])


async def _check_own_is_first(source: Source) -> None:
    """Raises ApiError (409) where the first account would be another one than the console's."""
    told = await list_accounts(source.client.instance)
    if all(found["on"] for found in told.values()):
        return
    own, why = source.client.config.account, "every request of this console would be refused then"
    raise ApiError(
        409,
        "first-account",
        f"with the first account every node asks for one, this console has none, and {why}; write "
        "accessKey and secretKey into a file of each node, set admin.account_file to it, start "
        "them again, and create that account first, as an administrator"
        if own is None
        else f"with the first account every node asks for one, and {why}; create {own.access_key} "
        "first, the account of this console (admin.account_file), as an administrator",
    )


async def _changed(
    source: Source, account: str, secret: str | None, said: Iterable[str], **parts: Any
) -> dict[str, Any]:
    """Change it, and tell the secret also when a broker name failed behind one that has it."""
    done: list[str] = []
    failed, words = None, [*said]
    try:
        await change_accounts(source.client.instance, done=done, **parts)
    except ClusterError as error:
        if secret is None or not may_be_changed(error, done):
            raise
        words = [*(word for word in words if word != "--new-secret"), "--secret-file", "FILE"]
        failed = f"done on {', '.join(done) or 'no broker name for certain'}, then: {error}"
    return {
        "account": account,
        "secret": secret,
        "failed": failed,
        "command": command("account", *words),
    }


async def alter_account(source: Source, values: Values) -> dict[str, Any]:
    """Change the given fields. Raises NotFound, ApiError (400, and 409 for the console's own)."""
    if values["new_secret"] or values["enabled"] is False or values["admin"] is False:
        _refuse_own(source, values["account"])
    row = {"accessKey": values["account"], **_rights(values)}
    words = [*_options(values)]
    if values["enabled"] is not None:
        row["status"] = "enable" if values["enabled"] else "disable"
        words.append(f"--{row['status']}")
    secret = None
    if values["new_secret"]:
        row["secretKey"] = secret = random_secret()
        words.append("--new-secret")
    if len(row) == 1:
        raise ApiError(400, "missing-value", "nothing to change is given; give a right, or enabled")
    said = ("alter", values["account"], *words)
    return await _changed(source, values["account"], secret, said, alter=[row])


async def delete_account(source: Source, values: Values) -> dict[str, Any]:
    """Delete an account. Raises NotFound, ApiError (409) for the console's own."""
    _refuse_own(source, values["account"])
    await change_accounts(source.client.instance, delete=[values["account"]])
    return {"command": command("account", "delete", values["account"])}


def _refuse_own(source: Source, account: str) -> None:
    own = source.client.config.account
    if own is not None and own.access_key == account:
        raise ApiError(
            409,
            "own-account",
            f"the console asks as {account} itself (admin.account_file), and every request of it "
            "would be refused from then on; use dledger account as another administrator, and put "
            "the account or the secret that holds then into each node's file",
        )


def _rights(values: Values) -> dict[str, Any]:
    return {
        field: _items(values[name])
        if name in _LISTS
        else (values[name] or None)  # 0 takes it away
        if name in QUOTAS
        else values[name]
        for name, field in _FIELDS.items()
        if values[name] is not None
    }


def _items(text: str) -> list[str]:
    """NAME=PUB|SUB, separated by commas or blanks."""
    return text.replace(",", " ").split()


def _options(values: Values) -> Iterator[str]:
    if values["admin"] is not None:
        yield "--admin" if values["admin"] else "--no-admin"
    for name, option in _LISTS.items():
        for item in _items(values[name] or ""):
            yield from (option, item)
    for name in ("default_topic", "default_group", *QUOTAS):
        if values[name] is not None:
            yield from (f"--{name.replace('_', '-')}", str(values[name]))
