"""RocketMQ 5's users and ACLs, 3001 to 3010, as accounts of the log (createUser, createAcl, …).

    user     accessKey, secretKey (the password), admin (userType Super), status
    ACL      policies (cluster/core/access/policies.py); rights of plain_acl.yml's kind are shown as
             policies, too, and are taken away as such

mqadmin with -c asks every address of the cluster, and all of them come to the leader: what is so
already is no error. Passwords are never told. What has no meaning here is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import orjson

from cluster.broker.access.accounts.changes import account_row, changed_accounts
from cluster.broker.access.accounts.requests import existing_account, joined, merged
from cluster.broker.access.ports import AccessPorts
from cluster.broker.kernel.net.decisions import Decision, decided
from cluster.broker.kernel.net.request_bodies import json_object, json_rows
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.account_rows import without_scopes
from cluster.core.access.needs import ADMIN
from cluster.core.access.policies import policy_row, read_policy, resource_text
from cluster.errors import InvalidRequest
from cluster.protocol.account_headers import (
    AclRequest,
    DeleteAclRequest,
    ListAclsRequest,
    ListUsersRequest,
    UserRequest,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.fields import decode
from cluster.protocol.frames import Frame

_USER = "User:"
_TYPES = {"super": True, "normal": False}
_STATES = ("enable", "disable")
#: Fields of plain_acl.yml: those by name, and what counts for the others.
_RIGHTS = (("Topic", "topicPerms", "defaultTopicPerm"), ("Group", "groupPerms", "defaultGroupPerm"))

_LISTS = ("policies", "topicPerms", "groupPerms")
ENTRIES_MAX = 50_000
"""That one listAcl looks at, before its resource filter: a fifth of a second of the leader's."""

R = TypeVar("R")
Row = dict[str, Any]


class WithBody(NamedTuple):
    """The fields of a request, and its body."""

    name: str
    body: dict[str, Any]


def _read_user(frame: Frame) -> WithBody:
    name = decode(UserRequest, frame.ext).username
    return WithBody(_named(name), json_object(frame, "a user"))


def _read_acl(frame: Frame) -> WithBody:
    subject = decode(AclRequest, frame.ext).subject
    return WithBody(_user_of(subject), json_object(frame, "an ACL"))


def _named(name: str) -> str:
    if not name.strip():
        raise InvalidRequest("the username is blank; give one")
    return name


def _user_of(subject: str) -> str:
    if not subject.startswith(_USER):
        raise InvalidRequest(f"the subject {subject[:64]!r} is no user; write User:NAME")
    return _named(subject.removeprefix(_USER))


# -- users -----------------------------------------------------------------------------------------


def create_user(ports: AccessPorts, request: WithBody) -> Decision:
    """3001."""
    row = _user_row(request)
    if "secretKey" not in row:
        raise InvalidRequest("the password is blank; give one of at least 8 characters")
    found = without_scopes(ports.state.accounts.get(request.name) or {})
    merged = {**found, **row}
    if found and account_row(merged) != found:
        raise InvalidRequest(f"the user {request.name[:64]!r} exists; change it with updateUser")
    return changed_accounts(ports, [merged], ())


def update_user(ports: AccessPorts, request: WithBody) -> Decision:
    """3002: fields that are not given stay."""
    row = merged(existing_account(ports, request.name), _user_row(request))
    return changed_accounts(ports, [row], ())


def delete_user(ports: AccessPorts, request: UserRequest) -> Decision:
    """3003."""
    return changed_accounts(ports, (), (request.username,))


def get_user(ports: AccessPorts, call: Call, request: UserRequest) -> None:
    """3004: no body for one that is not there."""

    def look() -> None:
        row = ports.state.accounts.get(request.username)
        call.answer(0, body=b"" if row is None else orjson.dumps(_user(row)))

    call.when_current(look)


def list_users(ports: AccessPorts, call: Call, request: ListUsersRequest) -> None:
    """3005."""

    def look() -> None:
        rows = ports.state.accounts.rows()
        part = request.filter or ""
        found = (_user(row) for row in rows if part in str(row["accessKey"]))
        call.answer(0, body=_list(found, "give a longer part of the names as the filter"))

    call.when_current(look)


def _user_row(request: WithBody) -> Row:
    """The fields of an account that the user's own fields say."""
    row: Row = {"accessKey": request.name}
    password, kind = request.body.get("password"), request.body.get("userType")
    status = request.body.get("userStatus")
    if password:
        row["secretKey"] = password
    if kind:
        if str(kind).lower() not in _TYPES:
            raise InvalidRequest(f"the user type is {str(kind)[:40]!r}; write Super or Normal")
        row["admin"] = _TYPES[str(kind).lower()]
    if status:
        if str(status).lower() not in _STATES:
            raise InvalidRequest(f"the status is {str(status)[:40]!r}; write enable or disable")
        row["status"] = str(status).lower()
    return row


def _user(row: Mapping[str, Any]) -> Row:
    """As UserInfo; a password is never told."""
    return {
        "username": row["accessKey"],
        "userType": "Super" if row.get("admin") else "Normal",
        "userStatus": row.get("status", "enable"),
    }


def _list(rows: Iterator[Row], advice: str) -> bytes:
    """RocketMQ sends no body for an empty list. Raises InvalidRequest, as `joined`."""
    found = joined(rows, advice)
    return b"" if found == b"[]" else found


# -- ACLs ------------------------------------------------------------------------------------------


def put_acl(ports: AccessPorts, request: WithBody) -> Decision:
    """3006 and 3007: policies of the resources that are named; those of others stay."""
    row = existing_account(ports, request.name)
    policies = {_place(policy): policy for policy in row.get("policies", ())}
    for policy in _policies_of(request.body):
        policies[_place(policy)] = policy
    return changed_accounts(ports, [{**row, "policies": [*policies.values()]}], ())


def delete_acl(ports: AccessPorts, request: DeleteAclRequest) -> Decision:
    """3008: rights of plain_acl.yml's kind go with the policies of the same resource."""
    row = existing_account(ports, _user_of(request.subject))
    resource = resource_text(request.resource or "")
    kind = (request.policy_type or "Custom").title()
    if not resource:
        for _, *names in _RIGHTS:
            for name in ("policies", *names):
                row.pop(name, None)
    else:
        gone = (kind, resource)
        row["policies"] = [one for one in row.get("policies", ()) if _place(one) != gone]
        for what, by_name, default in _RIGHTS:
            rights = [one for one in row.get(by_name, ()) if _right(what, one)[0] != gone]
            if rights != row.get(by_name, []):
                row[by_name] = rights
            if gone == ("Default", f"{what}:*"):
                row.pop(default, None)
    return changed_accounts(ports, [row], ())


def get_acl(ports: AccessPorts, call: Call, request: AclRequest) -> None:
    """3009."""
    name = _user_of(request.subject)

    def look() -> None:
        call.answer(0, body=orjson.dumps(_acl(existing_account(ports, name), "")))

    call.when_current(look)


def list_acls(ports: AccessPorts, call: Call, request: ListAclsRequest) -> None:
    """3010."""

    def look() -> None:
        subject, resource = request.subject_filter or "", request.resource_filter or ""
        rows = [
            row for row in ports.state.accounts.rows() if subject in f"{_USER}{row['accessKey']}"
        ]
        count = sum(len(row.get(name, ())) for row in rows for name in _LISTS)
        if count > ENTRIES_MAX:
            raise InvalidRequest(
                f"these users have {count} policies and rights, and {ENTRIES_MAX} are looked at "
                "once; give a subject filter"
            )
        acls = (_acl(row, resource) for row in rows)
        advice = "give a subject or resource filter"
        call.answer(0, body=_list((acl for acl in acls if acl["policies"]), advice))

    call.when_current(look)


def _policies_of(body: Mapping[str, Any]) -> Iterator[Row]:
    """An AclInfo's entries as rows. Raises InvalidRequest for an entry that cannot be kept."""
    for policy in json_rows(dict(body), "policies", "an ACL"):
        for entry in json_rows(policy, "entries", "a policy"):
            row = {
                "type": policy.get("policyType") or "Custom",
                **{name: value for name, value in entry.items() if value is not None},
            }
            try:
                yield policy_row(read_policy(row))
            except ValueError as error:
                raise InvalidRequest(str(error)) from None


def _place(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["type"]), str(row["resource"])


def _acl(row: Mapping[str, Any], resource: str) -> Row:
    """As AclInfo, with the entries that have `resource` in their resource."""
    by_type: dict[str, list[Row]] = {}
    for entry in _entries(row):
        if resource in entry["resource"]:
            by_type.setdefault(entry.pop("type"), []).append(entry)
    return {
        "subject": f"{_USER}{row['accessKey']}",
        "policies": [{"policyType": kind, "entries": rows} for kind, rows in by_type.items()],
    }


def _entries(row: Mapping[str, Any]) -> Iterator[Row]:
    for policy in row.get("policies", ()):
        yield dict(policy)
    for what, by_name, default in _RIGHTS:
        for one in row.get(by_name, ()):
            yield _shown(*_right(what, one))
        if row.get(default, "DENY") != "DENY":
            yield _shown(("Default", f"{what}:*"), str(row[default]))


def _right(what: str, text: str) -> tuple[tuple[str, str], str]:
    """`name=PUB|SUB` → (type, resource), the permission."""
    name, _, permission = text.partition("=")
    return ("Custom", f"{what}:{name.strip()}"), permission


def _shown(place: tuple[str, str], permission: str) -> Row:
    words = [word.strip().title() for word in permission.split("|")]
    denied = words == ["Deny"]
    return {
        "type": place[0],
        "resource": place[1],
        "actions": ["Pub", "Sub"] if denied else words,
        "decision": "Deny" if denied else "Allow",
    }


ROUTES: dict[int, Handler[AccessPorts, Any]] = {
    RequestCode.AUTH_CREATE_USER: Handler(Who.LEADER, _read_user, ADMIN, decided(create_user)),
    RequestCode.AUTH_UPDATE_USER: Handler(Who.LEADER, _read_user, ADMIN, decided(update_user)),
    RequestCode.AUTH_DELETE_USER: Handler(
        Who.LEADER, fields(UserRequest), ADMIN, decided(delete_user)
    ),
    RequestCode.AUTH_GET_USER: Handler(Who.LEADER, fields(UserRequest), ADMIN, get_user),
    RequestCode.AUTH_LIST_USER: Handler(Who.LEADER, fields(ListUsersRequest), ADMIN, list_users),
    RequestCode.AUTH_CREATE_ACL: Handler(Who.LEADER, _read_acl, ADMIN, decided(put_acl)),
    RequestCode.AUTH_UPDATE_ACL: Handler(Who.LEADER, _read_acl, ADMIN, decided(put_acl)),
    RequestCode.AUTH_DELETE_ACL: Handler(
        Who.LEADER, fields(DeleteAclRequest), ADMIN, decided(delete_acl)
    ),
    RequestCode.AUTH_GET_ACL: Handler(Who.LEADER, fields(AclRequest), ADMIN, get_acl),
    RequestCode.AUTH_LIST_ACL: Handler(Who.LEADER, fields(ListAclsRequest), ADMIN, list_acls),
}
