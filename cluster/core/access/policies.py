"""RocketMQ 5's policies of an account: a resource, actions, addresses, and Allow or Deny.

    {"type":"Custom","resource":"Topic:orders*","actions":["Pub","Sub"],
     "sourceIps":["10.0.0.0/8"],"decision":"Allow"}

    resource    Topic:NAME  Topic:PREFIX*  Topic:*  Group:NAME  Group:PREFIX*  Group:*  *
    actions     Pub, Sub; with one of them also Get and List, which say nothing more here
    sourceIps   addresses and networks; none: everywhere (policy_index.py says who is in which)
    type        Default policies count where no Custom one matches

Of those that match a request the one with the most exact resource decides: a name, then the longest
prefix, then Type:*, then *; of two alike the one that denies. What none of them matches, the
account's other rights decide. Source: RocketMQ 5, AclAuthorizationHandler (its sort puts the one
that denies last, against its own comment).

What has no meaning here is refused, never dropped: a policy that is kept is one that is obeyed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.core.access.addresses import Network, network_of
from cluster.core.access.permission import Permission
from cluster.core.topics import DLQ_PREFIX, RETRY_PREFIX

POLICIES_MAX = 1000
"""Of one account; a change that would leave more is refused."""

_FIELDS = frozenset({"type", "resource", "actions", "sourceIps", "decision"})
_NAMED = {"pub": Permission.PUB, "sub": Permission.SUB}
_LOOKS = frozenset({"get", "list"})


class Resource(enum.Enum):
    """The kinds of resources that a policy can name."""

    TOPIC = "Topic"
    GROUP = "Group"
    ANY = "*"


@dataclass(frozen=True, slots=True)
class Policy:
    """One row. `name` without its "*" when `is_prefix`; "" and a prefix: any name."""

    resource: Resource
    name: str
    is_prefix: bool
    actions: Permission
    allow: bool
    is_default: bool = False
    sources: tuple[Network, ...] = ()


def read_policy(row: Any) -> Policy:
    """A row → the policy. Raises ValueError, with the reason that it cannot be kept."""
    if not isinstance(row, Mapping):
        raise ValueError(f"{row!r} is no policy; give it resource, actions and decision")
    unknown = set(row) - _FIELDS
    if unknown:
        raise ValueError(f"unknown key {sorted(map(str, unknown))[0]!r}; remove it")
    resource, name, is_prefix = _resource(str(row.get("resource") or ""))
    decision = str(row.get("decision") or "").lower()
    if decision not in ("allow", "deny"):
        raise ValueError(f"the decision is {row.get('decision')!r}; write Allow or Deny")
    kind = str(row.get("type") or "Custom").lower()
    if kind not in ("custom", "default"):
        raise ValueError(f"the policy type is {row.get('type')!r}; write Custom or Default")
    return Policy(
        resource,
        name,
        is_prefix,
        _actions(_texts(row.get("actions"), "actions"), resource),
        decision == "allow",
        kind == "default",
        tuple(map(_network, _texts(row.get("sourceIps"), "sourceIps"))),
    )


def policy_row(policy: Policy) -> dict[str, Any]:
    """Inverse of `read_policy`."""
    row: dict[str, Any] = {
        "type": "Default" if policy.is_default else "Custom",
        "resource": _spelled(policy.resource, policy.name, policy.is_prefix),
        "actions": [word.title() for word, flag in _NAMED.items() if flag in policy.actions],
        "decision": "Allow" if policy.allow else "Deny",
    }
    if policy.sources:
        row["sourceIps"] = [str(network) for network in policy.sources]
    return row


def resource_text(text: str) -> str:
    """A resource as rows of the log spell it; as it is, where no policy could have it."""
    try:
        return _spelled(*_resource(text))
    except ValueError:
        return text


def _spelled(resource: Resource, name: str, is_prefix: bool) -> str:
    return "*" if resource is Resource.ANY else f"{resource.value}:{name}{'*' * is_prefix}"


def _resource(text: str) -> tuple[Resource, str, bool]:
    if text == "*":
        return Resource.ANY, "", True
    kind, colon, name = text.partition(":")
    found = {"topic": Resource.TOPIC, "group": Resource.GROUP}.get(kind.lower())
    if found is None or not colon or not name:
        raise ValueError(
            f"the resource {text!r} has no rights of its own here; name Topic:NAME, Topic:PREFIX*, "
            "Group:NAME or Group:PREFIX*, and make administrators of the cluster with user type "
            "Super"
        )
    if "*" in name[:-1]:
        raise ValueError(f"the resource {text!r} has a * before its end; put it at the end only")
    if found is Resource.TOPIC and name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise ValueError(
            f"the resource {text!r} is asked about as its group, never as a topic; name Group:NAME"
        )
    return found, name.removesuffix("*"), name.endswith("*")


def _actions(words: Iterable[str], resource: Resource) -> Permission:
    found = Permission.DENY
    for word in words:
        permission = _NAMED.get(word.lower())
        if permission is not None:
            found |= permission
        elif word.lower() not in _LOOKS:
            raise ValueError(
                f"the action {word!r} is for administrators here, or unknown; write Pub, Sub, and "
                "make administrators with user type Super"
            )
    if found is Permission.DENY:
        raise ValueError("no action is left; write Pub or Sub (Get and List come with them)")
    if resource is Resource.GROUP and Permission.PUB in found:
        raise ValueError(
            "Pub of a group would take it from all other producers here; write Sub, or give the "
            "account groupPerms with dledger account alter"
        )
    return found


def _texts(rows: Any, what: str) -> list[str]:
    if rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise ValueError(f"{what} is {rows!r}; write a list of texts")
    return rows


def _network(text: str) -> Network:
    try:
        return network_of(text)
    except ValueError:
        raise ValueError(f"{text!r} is no address and no network; write 10.0.0.0/8") from None
