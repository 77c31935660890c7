"""The one form in which the log has an account: each thing that its row says, in one way.

    {"accessKey":"a-writer","admin":null,"topicPerms":["orders = PUB"],
     "policies":[{"resource":"topic:a","actions":["sub"],"decision":"ALLOW"}]}
                     │ logged_row
    {"accessKey":"a-writer","secretKey":…,"topicPerms":["orders=PUB"],
     "policies":[{"type":"Custom","resource":"Topic:a","actions":["Sub"],"decision":"Allow"}]}

So code that lists, changes or compares rows meets one spelling, no null, and no field at its
default. A row that is no account, is too large, or has a rule that no request can match is refused
before it is logged.
A list of plain_acl.yml's kind that names something twice keeps the last, which is the one that
counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cluster.core.access.accounts import (
    PREVIOUS_SECRET,
    Account,
    AccountsError,
    read_account,
)
from cluster.core.access.needs import group_of
from cluster.core.access.permission import Permission
from cluster.core.access.policies import POLICIES_MAX, Resource, policy_row
from cluster.core.access.quota import FIELDS as QUOTA_FIELDS
from cluster.core.access.quota import quota_fields
from cluster.core.topics import DLQ_PREFIX, RETRY_PREFIX

KEY_BYTES_MAX = 255
SECRET_BYTES_MAX = 1024
ROW_BYTES_MAX = 64 * 1024
SOURCES_MAX = 100
"""Of one policy."""


def row_size(row: Mapping[str, Any]) -> int:
    """Bytes of the row in the log, about. Raises AccountsError for a row that is no JSON."""
    try:
        return len(json.dumps(row, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError) as error:
        raise AccountsError(f"an account cannot be kept: {error}") from None


def check_logged(row: Any) -> None:
    """A row of the log that every table takes: texts, true, false, lists of texts or policies, and
    the numbers of a quota.

    What nests deeper, another number, and half a surrogate pair are in no row that `logged_row`
    made.
    Raises AccountsError.
    """
    read = row.items() if isinstance(row, Mapping) else ()
    for name, value in read:
        if name in QUOTA_FIELDS:
            continue  # read_account looks at them
        for one in value if isinstance(value, list) else (value,):
            is_policy = name == "policies" and isinstance(one, Mapping)
            for part in one.values() if is_policy else (one,):
                for text in part if is_policy and isinstance(part, list) else (part,):
                    if not isinstance(text, str | bool | None):
                        raise AccountsError(f"{name[:40]} holds a {type(text).__name__}")
    row_size(row)
    read_account(row)


def logged_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as the log keeps it. Raises AccountsError."""
    if (size := row_size(row)) > ROW_BYTES_MAX:
        raise AccountsError(
            f"an account takes {size} bytes and {ROW_BYTES_MAX} are the limit; use patterns or "
            "defaults, or split it"
        )
    given = {name: value for name, value in row.items() if value is not None}
    for name in ("accessKey", "secretKey", PREVIOUS_SECRET):
        if not isinstance(given.get(name, ""), str):
            raise AccountsError(f"{name} is {type(given[name]).__name__}; put it in quotes")
    _check_sources(given.get("policies"))
    account = read_account(given)
    for name, text, most in (
        ("accessKey", account.access_key, KEY_BYTES_MAX),
        ("secretKey", account.secret_key, SECRET_BYTES_MAX),
        (PREVIOUS_SECRET, account.previous_secret or "", SECRET_BYTES_MAX),
    ):
        if len(text.encode()) > most:
            raise AccountsError(f"{name} has {len(text.encode())} bytes; {most} are the limit")
    if len(account.policies) > POLICIES_MAX:
        raise AccountsError(
            f"{len(account.policies)} policies of one account; {POLICIES_MAX} is the limit"
        )
    for topic in account.topics:
        if group_of(topic) is not None:
            raise AccountsError(
                f"topicPerms name {topic[:255]!r}, which is asked about as its group; say it in "
                "groupPerms"
            )
    for policy in account.policies:
        prefix = policy.name if policy.resource is Resource.TOPIC and policy.is_prefix else ""
        if len(prefix) > 1 and any(one.startswith(prefix) for one in (RETRY_PREFIX, DLQ_PREFIX)):
            raise AccountsError(
                f"the resource 'Topic:{prefix}*' names topics that are asked about as their "
                "groups; name Group:NAME or Group:PREFIX*"
            )
    return {name: value for name, value in _row_of(account, given).items() if value is not None}


def without_scopes(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the log as `logged_row` takes it again: earlier releases kept fe80::1%eth0/128.

    It meant fe80::1 on every interface, as it does without.
    """
    found = dict(row)
    if policies := found.get("policies"):
        found["policies"] = [
            {**one, "sourceIps": [re.sub("%[^/]*", "", source) for source in one["sourceIps"]]}
            if one.get("sourceIps")
            else one
            for one in policies
        ]
    return found


def _check_sources(policies: Any) -> None:
    """Before they are read, which takes long for many. Raises AccountsError."""
    for row in policies if isinstance(policies, list) else ():
        sources = row.get("sourceIps") if isinstance(row, Mapping) else None
        if isinstance(sources, list) and len(sources) > SOURCES_MAX:
            raise AccountsError(
                f"a policy has {len(sources)} sourceIps and {SOURCES_MAX} are the limit; give "
                "networks, or several policies"
            )
        for source in sources if isinstance(sources, list) else ():
            _, percent, scope = str(source).partition("%")
            if percent:
                raise AccountsError(
                    f"the source {str(source)[:80]!r} names an interface, which each node calls "
                    f"its own way; write it without %{scope.partition('/')[0][:40]}, and it is "
                    "meant on each of them"
                )


def _row_of(account: Account, given: Mapping[str, Any]) -> dict[str, Any]:
    """None for fields at their defaults."""
    return {
        "accessKey": account.access_key,
        "secretKey": account.secret_key,
        PREVIOUS_SECRET: account.previous_secret,
        "admin": account.admin or None,
        "sealed": "required" if account.sealed else None,
        "whiteRemoteAddress": str(given.get("whiteRemoteAddress", "")) or None,
        "defaultTopicPerm": _text(account.default_topic) if account.default_topic else None,
        "defaultGroupPerm": _text(account.default_group) if account.default_group else None,
        "topicPerms": _texts(account.topics),
        "groupPerms": _texts(account.groups),
        "takeOverProducers": [*account.take_over] or None,
        "status": None if account.enabled else "disable",
        "policies": [*map(policy_row, account.policies)] or None,
        **quota_fields(account.quota),
    }


def _texts(permissions: Mapping[str, Permission]) -> list[str] | None:
    return [f"{name}={_text(one)}" for name, one in permissions.items()] or None


def _text(permission: Permission) -> str:
    return "|".join(one.name or "" for one in Permission if one in permission and one) or "DENY"
