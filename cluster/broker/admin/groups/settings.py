"""Settings of consumer groups: 200, 201, 207, 225, 352, 353 (docs/spec/remoting.md 2.8).

A group's bean is kept whole; what a request leaves out keeps RocketMQ's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cluster.broker.admin.expected_rows import check_expected
from cluster.broker.admin.ports import AdminPorts
from cluster.broker.kernel.net.decisions import Decision, decided
from cluster.broker.kernel.net.offset_decisions import WhenCommitted
from cluster.broker.kernel.net.request_bodies import (
    existing_topic,
    json_object,
    json_rows,
    legal_group,
)
from cluster.broker.kernel.net.requests import Call, Handler, Who, fields
from cluster.core.access.needs import ADMIN, Needs, in_group
from cluster.core.internal_topics import GroupsChanged, TopicsChanged
from cluster.core.subscription_groups import BUILT_IN_GROUPS, new_group
from cluster.core.topics import QUEUES_MAX, RETRY_PREFIX, TopicConfig
from cluster.errors import GroupNotFound, InvalidRequest, Unauthorized
from cluster.protocol.admin_headers import (
    DeleteGroupRequest,
    GroupConfigRequest,
    GroupForbiddenRequest,
    GroupForbiddenResponse,
    GroupPageRequest,
)
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame
from cluster.protocol.headers import encode
from cluster.protocol.json_body import dump

READ_FORBIDDEN = 1  # bit 0 of a group's and topic's bits (PermName's INDEX_PERM_READ is bit 0 here)
RETRY_TIMES_MAX = 1 << 31
_NUMBERS = {
    "brokerId": 1 << 31,
    "consumeTimeoutMinute": 1 << 31,
    "groupSysFlag": 1 << 31,
    "retryMaxTimes": RETRY_TIMES_MAX,
    "retryQueueNums": QUEUES_MAX + 1,
    "whichBrokerWhenConsumeSlowly": 1 << 31,
}
_DICTS = ("attributes", "groupRetryPolicy")


def checked_bean(value: Mapping[str, Any]) -> dict[str, Any]:
    """A SubscriptionGroupConfig with defaults filled in. Raises InvalidRequest."""
    name = value.get("groupName")
    if not isinstance(name, str):
        raise InvalidRequest("a group's settings lack groupName; send it")
    bean = {**new_group(legal_group(name)), **{k: v for k, v in value.items() if v is not None}}
    for key, above in _NUMBERS.items():
        number = bean[key]
        if not isinstance(number, int) or isinstance(number, bool) or not -1 <= number < above:
            raise InvalidRequest(f"{key} is {str(number)[:40]} and must be -1 to {above - 1}")
    if bean["retryQueueNums"] < 1:
        raise InvalidRequest("retryQueueNums is below 1; give at least 1")
    for key, default in new_group(name).items():
        if isinstance(default, bool) and not isinstance(bean[key], bool):
            raise InvalidRequest(f"{key} must be true or false")
    for key in _DICTS:
        if not isinstance(bean[key], dict):
            raise InvalidRequest(f"{key} must be an object")
    return bean


class PutGroups(NamedTuple):
    """Settings of groups. `expected`: see expected_rows.py; of a single group only."""

    rows: list[dict[str, Any]]
    expected: str | None = None


def _read_group(frame: Frame) -> PutGroups:
    expected = frame.ext.get("expected")
    return PutGroups([checked_bean(json_object(frame, "a consumer group"))], expected)


def _read_groups(frame: Frame) -> PutGroups:
    value = json_object(frame, "a list of groups")
    rows = json_rows(value, "groupConfigList", "list of groups")
    return PutGroups([checked_bean(row) for row in rows])


def put_groups(ports: AdminPorts, request: PutGroups) -> Decision:
    """200, 225: create or change groups, with the retry topics that they lack, all or none.

    Raises IllegalOperation.
    """
    beans, state = request.rows, ports.state
    if not beans:
        return Decision()
    name = str(beans[0]["groupName"])
    check_expected(ports.writer.groups_in_log, name, state.groups.get(name), request.expected)
    missing = tuple(
        TopicConfig(RETRY_PREFIX + bean["groupName"], count, count)
        for bean in beans
        if state.topics.get(RETRY_PREFIX + bean["groupName"]) is None
        and (count := int(bean["retryQueueNums"]))
    )
    change = GroupsChanged(put=tuple(beans))
    return Decision((TopicsChanged(create=missing), change) if missing else (change,))


def all_groups(ports: AdminPorts, call: Call, request: GroupPageRequest) -> None:
    """201: every group, or a page of them."""
    groups = ports.state.groups
    rows = {str(bean["groupName"]): bean for bean in groups}
    ext: dict[str, str] = {}
    if request.max_group_num is not None:
        names = sorted(rows)
        first = max(request.group_seq, 0)
        page = names[first : first + max(request.max_group_num, 0)]
        ext["totalGroupNum"] = str(len(names))
        rows = {name: rows[name] for name in page}
    body = {
        "dataVersion": groups.version.to_json(),
        "forbiddenTable": groups.all_forbidden(),
        "subscriptionGroupTable": rows,
    }
    call.answer(0, ext, dump(body))


def group_config(ports: AdminPorts, call: Call, request: GroupConfigRequest) -> None:
    """352: one group."""
    name = legal_group(request.group)
    bean = ports.state.groups.get(name)
    if bean is None:
        raise GroupNotFound(f"the consumer group {name} does not exist; create it first")
    call.answer(0, body=dump(dict(bean)))


def delete_group(
    ports: AdminPorts, request: DeleteGroupRequest
) -> Decision | WhenCommitted[AdminPorts]:
    """207: the settings go, its locks too, and with `cleanOffset` its offsets.

    Commits of them that were on their way are in the log then; the deletion comes after these.
    """
    name = legal_group(request.group_name)
    if name in BUILT_IN_GROUPS:
        raise Unauthorized(f"the group {name} is the broker's own; change another one")
    gone = Decision((GroupsChanged(delete=(name,), clean_offset=request.clean_offset),))
    return WhenCommitted(name, lambda: gone) if request.clean_offset else gone


def forbidden(ports: AdminPorts, request: GroupForbiddenRequest) -> Decision:
    """353: may the group read the topic? With `readable`: from now on."""
    group = legal_group(request.group)
    existing_topic(ports.state.topics, request.topic)
    state = ports.state

    def tell(call: Call) -> None:
        readable = not state.groups.forbidden(group, request.topic) & READ_FORBIDDEN
        call.answer(0, encode(GroupForbiddenResponse(group, request.topic, readable)))

    if request.readable is None:
        return Decision(answer=tell)
    bits = 0 if request.readable else READ_FORBIDDEN
    return Decision((GroupsChanged(forbid={group: {request.topic: bits}}),), tell)


def _needs(request: GroupConfigRequest) -> Needs:
    return in_group(request.group)


ROUTES: dict[int, Handler[AdminPorts, Any]] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Handler(
        Who.LEADER, _read_group, ADMIN, decided(put_groups)
    ),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Handler(
        Who.LEADER, _read_groups, ADMIN, decided(put_groups)
    ),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Handler(
        Who.LEADER, fields(GroupPageRequest), ADMIN, all_groups
    ),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: Handler(
        Who.LEADER, fields(GroupConfigRequest), _needs, group_config
    ),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: Handler(
        Who.LEADER, fields(DeleteGroupRequest), ADMIN, decided(delete_group)
    ),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Handler(
        Who.LEADER, fields(GroupForbiddenRequest), ADMIN, decided(forbidden)
    ),
}
