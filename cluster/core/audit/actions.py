"""Requests of administrators in the words of the command line.

    request code, decoded request ─► Action(verb, target, command) ─► an entry of the audit log

A code that is not here is not audited: it only looks, or it is a client's everyday work. A request
that turns out to look only (a dry run) has no action either.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cluster.core.topics import TopicConfig
from cluster.protocol.admin_headers import (
    CloneOffsetRequest,
    DeleteGroupRequest,
    GroupForbiddenRequest,
    ResetOffsetRequest,
)
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.headers import ALTER_ONLY, CreateTopicRequest, TopicRequest
from cluster.protocol.json_body import ABSENT
from cluster.protocol.replica_headers import ChangeMembersRequest, TransferLeaderRequest

NAMES_MAX: Final = 10
TO_THE_END: Final = -1


class Action(NamedTuple):
    """`command` is "" where the command line has no verb for it."""

    verb: str
    target: str
    command: str = ""


def action_of(code: int, request: Any) -> Action | None:
    """The action of a decoded request; None: it only looks."""
    return ACTIONS[code](request)


def attempted(code: int) -> Action:
    """The action of a request that was refused before it was read."""
    return Action(_VERBS[code], "")


def _command(*words: object) -> str:
    return shlex.join(["dledger", *map(str, words)])


def _names(kind: str, names: list[str]) -> str:
    shown = " ".join(names[:NAMES_MAX])
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{kind} {shown}{more}"


def _put_topic(request: CreateTopicRequest) -> Action:
    verb = "topic alter" if request.intent == ALTER_ONLY else "topic create"
    command = _command(*verb.split(), request.topic, "-q", request.write_queue_nums)
    return Action(verb, f"topic {request.topic}", command)


def _put_topics(rows: list[TopicConfig]) -> Action | None:
    return Action("topic create", _names("topic", [row.name for row in rows])) if rows else None


def _delete_topic(request: TopicRequest) -> Action:
    command = _command("topic", "delete", request.topic)
    return Action("topic delete", f"topic {request.topic}", command)


def _put_groups(request: Any) -> Action | None:
    names = [str(row["groupName"]) for row in request.rows]
    verb = "group create" if request.expected in (None, ABSENT) else "group alter"
    return Action(verb, _names("group", names)) if names else None


def _delete_group(request: DeleteGroupRequest) -> Action:
    command = _command("group", "delete", request.group_name)
    return Action("group delete", f"group {request.group_name}", command)


def _forbid(request: GroupForbiddenRequest) -> Action | None:
    if request.readable is None:
        return None
    verb = "group allow" if request.readable else "group forbid"
    return Action(verb, f"group {request.group} topic {request.topic}")


def _reset(request: ResetOffsetRequest) -> Action:
    target = f"group {request.group} topic {request.topic}"
    command = ""
    if request.offset is None and request.queue_id < 0:
        to = "last" if request.timestamp == TO_THE_END else str(request.timestamp)
        command = _command("group", "reset", request.group, "--topic", request.topic, "--to", to)
    return Action("group reset", target, command)


def _clone(request: CloneOffsetRequest) -> Action:
    words = ["group", "clone", request.src_group, request.dest_group]
    words += ["--topic", request.topic] if request.topic else []
    return Action("group clone", f"group {request.dest_group}", _command(*words))


def _transfer(request: TransferLeaderRequest) -> Action:
    node = request.node or ""
    return Action(
        "leader move", f"node {node or 'the best follower'}", _command("leader", "move", node)
    )


def _members(request: ChangeMembersRequest) -> Action | None:
    if request.dry_run:
        return None
    verb = f"member {request.kind}"
    known = request.kind in ("add", "remove")
    command = _command("member", request.kind, request.node) if known else ""
    return Action(verb[:40], f"node {request.node}", command)


def _accounts(request: Any) -> Action:
    parts = [
        (verb, [row if isinstance(row, str) else str(row.get("accessKey")) for row in rows])
        for verb, rows in (
            ("create", request.create),
            ("alter", request.alter),
            ("import", request.put),
            ("delete", request.delete),
        )
        if rows
    ]
    if len(parts) != 1:
        names = [name for _, found in parts for name in found]
        return Action("account change", _names("account", names))
    verb, names = parts[0]
    single = len(names) == 1 and verb != "import"
    command = _command("account", verb, names[0]) if single else ""
    return Action(f"account {verb}", _names("account", names), command)


def _user(verb: str) -> Callable[[Any], Action]:
    def action(request: Any) -> Action:
        name = str(getattr(request, "name", None) or getattr(request, "username", ""))
        return Action(f"account {verb}", f"account {name}", _command("account", verb, name))

    return action


def _acl(request: Any) -> Action:
    name = str(getattr(request, "name", None) or request.subject.removeprefix("User:"))
    return Action("account alter", f"account {name}")


def _take_over(request: Any) -> Action:
    return Action("producer take-over", f"producer {request.producer_id}")


def _request_mode(request: Any) -> Action:
    return Action("group mode", f"group {request.group} topic {request.topic}")


def _resume(request: Any) -> Action:
    return Action("txn resume", f"message {request.msg_id}")


def _settings(request: dict[str, str]) -> Action | None:
    if not request:
        return None
    command = ""
    if len(request) == 1:
        ((name, value),) = request.items()
        command = _command("config", *(("set", name, value) if value else ("unset", name)))
    return Action("config set", _names("setting", [*request]), command)


def _recorded(request: Any) -> Action:
    return Action(request.verb, request.target, request.command)


ACTIONS: Final[Mapping[int, Callable[[Any], Action | None]]] = {
    Code.UPDATE_AND_CREATE_TOPIC: _put_topic,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _put_topics,
    Code.DELETE_TOPIC_IN_BROKER: _delete_topic,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _put_groups,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _put_groups,
    Code.DELETE_SUBSCRIPTIONGROUP: _delete_group,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _forbid,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _reset,
    Code.CLONE_GROUP_OFFSET: _clone,
    Code.SET_MESSAGE_REQUEST_MODE: _request_mode,
    Code.RESUME_CHECK_HALF_MESSAGE: _resume,
    Code.TRANSFER_LEADER: _transfer,
    Code.CHANGE_MEMBERS: _members,
    Code.TAKE_OVER_PRODUCER: _take_over,
    Code.CHANGE_ACCOUNTS: _accounts,
    Code.AUTH_CREATE_USER: _user("create"),
    Code.AUTH_UPDATE_USER: _user("alter"),
    Code.AUTH_DELETE_USER: _user("delete"),
    Code.AUTH_CREATE_ACL: _acl,
    Code.AUTH_UPDATE_ACL: _acl,
    Code.AUTH_DELETE_ACL: _acl,
    Code.UPDATE_BROKER_CONFIG: _settings,
    Code.RECORD_ACTION: _recorded,
}

_VERBS: Final[Mapping[int, str]] = {
    Code.UPDATE_AND_CREATE_TOPIC: "topic create",
    Code.UPDATE_AND_CREATE_TOPIC_LIST: "topic create",
    Code.DELETE_TOPIC_IN_BROKER: "topic delete",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "group create",
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: "group create",
    Code.DELETE_SUBSCRIPTIONGROUP: "group delete",
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: "group forbid",
    Code.INVOKE_BROKER_TO_RESET_OFFSET: "group reset",
    Code.CLONE_GROUP_OFFSET: "group clone",
    Code.SET_MESSAGE_REQUEST_MODE: "group mode",
    Code.RESUME_CHECK_HALF_MESSAGE: "txn resume",
    Code.TRANSFER_LEADER: "leader move",
    Code.CHANGE_MEMBERS: "member change",
    Code.TAKE_OVER_PRODUCER: "producer take-over",
    Code.CHANGE_ACCOUNTS: "account change",
    Code.AUTH_CREATE_USER: "account create",
    Code.AUTH_UPDATE_USER: "account alter",
    Code.AUTH_DELETE_USER: "account delete",
    Code.AUTH_CREATE_ACL: "account alter",
    Code.AUTH_UPDATE_ACL: "account alter",
    Code.AUTH_DELETE_ACL: "account alter",
    Code.UPDATE_BROKER_CONFIG: "config set",
    Code.RECORD_ACTION: "record",
}
assert _VERBS.keys() == ACTIONS.keys()
