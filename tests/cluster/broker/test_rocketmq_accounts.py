"""RocketMQ 5's users and ACLs, 3001 to 3010: kept as accounts, shown without passwords."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.protocol.codes import RequestCode as Code

from .by_hand import Asked, HandBroker, HandClient

INVALID, NOT_FOUND = 29, 22
SECRET = "drawn-for-this-test-alone"
CHIEF_ROW = {"accessKey": "the-chief", "secretKey": SECRET}
CHIEF = {"username": "the-chief", "password": SECRET, "userType": "Super"}


class Tool:
    """What mqadmin sends, from an address that needs no account."""

    def __init__(self, root: Path) -> None:
        free = root / "free.yml"
        free.write_text("globalWhiteRemoteAddresses: ['*']\n")
        self.broker = HandBroker(root / "node", cluster_secret="one for all", acl_file=str(free))
        self.broker.lead()
        self.client = HandClient(self.broker)

    def asks(self, code: int, body: Any = None, **ext: str) -> Any:
        """The answer's JSON body, None for an empty one."""
        asked = self._ask(code, body, ext)
        assert asked.answer is not None
        assert asked.answer.code == 0, asked.answer.remark
        assert SECRET.encode() not in asked.answer.body
        return json.loads(asked.answer.body) if asked.answer.body else None

    def is_refused(self, wanted: int, words: str, code: int, body: Any = None, **ext: str) -> None:
        before = self.rows()
        asked = self._ask(code, body, ext)
        assert asked.answer is not None
        assert asked.code == wanted, asked.answer.remark
        assert words in (asked.answer.remark or "")
        assert self.rows() == before

    def rows(self) -> dict[str, Any]:
        return {str(row["accessKey"]): row for row in self.broker.parts.state.accounts.rows()}

    def user(self, name: str, code: int = Code.AUTH_CREATE_USER, **body: Any) -> None:
        self.asks(code, {"username": name, **body}, username=name)

    def acl(self, *entries: dict[str, Any], code: int = Code.AUTH_CREATE_ACL) -> None:
        body = {"policies": [{"policyType": "Custom", "entries": list(entries)}]}
        self.asks(code, body, subject="User:a-writer")

    def _ask(self, code: int, body: Any, ext: dict[str, str]) -> Asked:
        asked = self.client.ask(code, ext, b"" if body is None else json.dumps(body).encode())
        self.broker.commit()
        return asked


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    """With an administrator and a writer."""
    tool = Tool(tmp_path)
    tool.asks(Code.AUTH_CREATE_USER, CHIEF, username="the-chief")
    tool.user("a-writer", password=SECRET)
    yield tool
    tool.broker.close()


def entry(resource: str, decision: str = "Allow", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": ["Sub"], "decision": decision, **more}


def test_users_are_made_changed_listed_and_deleted(tool: Tool) -> None:
    users = tool.asks(Code.AUTH_LIST_USER)
    assert users == [
        {"username": "a-writer", "userType": "Normal", "userStatus": "enable"},
        {"username": "the-chief", "userType": "Super", "userStatus": "enable"},
    ]
    assert tool.asks(Code.AUTH_LIST_USER, filter="chief") == users[1:]
    assert tool.asks(Code.AUTH_GET_USER, username="nobody-here") is None
    tool.user("a-writer", password=SECRET)  # as another node of the list asks
    tool.user("a-writer", Code.AUTH_UPDATE_USER, userStatus="disable")
    assert tool.asks(Code.AUTH_GET_USER, username="a-writer")["userStatus"] == "disable"
    assert tool.rows()["a-writer"]["secretKey"] == SECRET, "what is not given stays"
    tool.user("a-writer", Code.AUTH_UPDATE_USER, userType="Super")
    tool.asks(Code.AUTH_DELETE_USER, username="a-writer")
    tool.asks(Code.AUTH_DELETE_USER, username="a-writer")
    assert [*tool.rows()] == ["the-chief"]


@pytest.mark.parametrize(
    ("wanted", "words", "code", "name", "body"),
    [
        (INVALID, "password is blank", 3001, "a-second", {}),
        (INVALID, "username is blank", 3001, " ", {"password": SECRET}),
        (INVALID, "updateUser", 3001, "a-writer", {"password": "another-secret-key"}),
        (INVALID, "Super or Normal", 3001, "a-second", {"password": SECRET, "userType": "Chief"}),
        (INVALID, "enable or disable", 3002, "a-writer", {"userStatus": "sleeping"}),
        (INVALID, "secretKey", 3002, "a-writer", {"password": "12345678"}),
        (INVALID, "put it in quotes", 3002, "a-writer", {"password": [SECRET]}),
        (NOT_FOUND, "no account", 3002, "nobody-here", {"userStatus": "enable"}),
        (INVALID, "no administrator would be left", 3002, "the-chief", {"userType": "Normal"}),
        (INVALID, "no administrator would be left", 3002, "the-chief", {"userStatus": "disable"}),
        (INVALID, "no administrator would be left", 3003, "the-chief", None),
    ],
)
def test_users_that_cannot_be_are_refused(
    tool: Tool, wanted: int, words: str, code: int, name: str, body: Any
) -> None:
    tool.is_refused(wanted, words, code, body, username=name)


def test_policies_of_other_resources_stay(tool: Tool) -> None:
    tool.acl(entry("Topic:orders*"), entry("Group:billing", sourceIps=["10.0.0.1"]))
    tool.acl(entry("Topic:orders*", "Deny"), code=Code.AUTH_UPDATE_ACL)
    found = tool.asks(Code.AUTH_GET_ACL, subject="User:a-writer")
    assert found["subject"] == "User:a-writer"
    (policy,) = found["policies"]
    assert policy["policyType"] == "Custom"
    assert {one["resource"]: one["decision"] for one in policy["entries"]} == {
        "Topic:orders*": "Deny",
        "Group:billing": "Allow",
    }
    (listed,) = tool.asks(Code.AUTH_LIST_ACL, subjectFilter="writer", resourceFilter="Group")
    assert [one["resource"] for one in listed["policies"][0]["entries"]] == ["Group:billing"]
    assert tool.asks(Code.AUTH_LIST_ACL, subjectFilter="chief") is None
    tool.asks(Code.AUTH_DELETE_ACL, subject="User:a-writer", resource="Topic:orders*")
    assert [one["resource"] for one in tool.rows()["a-writer"]["policies"]] == ["Group:billing"]
    tool.asks(Code.AUTH_DELETE_ACL, subject="User:a-writer")
    assert tool.asks(Code.AUTH_LIST_ACL) is None


def test_an_account_of_an_earlier_release_with_a_scoped_source_can_be_altered(tool: Tool) -> None:
    """Only what is newly given is refused for it."""
    accounts = tool.broker.parts.state.accounts
    old = entry("Topic:orders", type="Custom", sourceIps=["fe80::1%eth0/128", "10.0.0.0/8"])
    stored = {**tool.rows()["a-writer"], "policies": [old]}
    kept = {**old, "sourceIps": ["fe80::1/128", "10.0.0.0/8"]}
    for code, body in (
        (Code.AUTH_CREATE_USER, {"password": SECRET}),
        (Code.AUTH_UPDATE_USER, {"userStatus": "disable"}),
    ):
        accounts.replay([stored], ())
        tool.user("a-writer", code, **body)
        assert tool.rows()["a-writer"]["policies"] == [kept]
    accounts.replay([stored], ())
    tool.asks(Code.CHANGE_ACCOUNTS, {"alter": [{"accessKey": "a-writer", "admin": True}]})
    assert tool.rows()["a-writer"] == {**stored, "admin": True, "policies": [kept]}
    accounts.replay([stored], ())
    tool.acl(entry("Topic:more"))
    assert tool.rows()["a-writer"]["policies"][0] == kept
    scoped = {
        "policies": [
            {"policyType": "Custom", "entries": [entry("Topic:new", sourceIps=["fe80::2%eth0"])]}
        ]
    }
    tool.is_refused(
        INVALID, "names an interface", Code.AUTH_CREATE_ACL, scoped, subject="User:a-writer"
    )


def test_rights_of_plain_acls_kind_are_shown_and_taken_away_as_policies(tool: Tool) -> None:
    rights = {"topicPerms": ["orders=PUB|SUB", "else=DENY"], "defaultGroupPerm": "SUB"}
    change = {"alter": [{"accessKey": "a-writer", **rights}]}
    tool.asks(Code.CHANGE_ACCOUNTS, change)
    policies = tool.asks(Code.AUTH_GET_ACL, subject="User:a-writer")["policies"]
    shown = {
        one["resource"]: (policy["policyType"], one["actions"], one["decision"])
        for policy in policies
        for one in policy["entries"]
    }
    assert shown == {
        "Topic:orders": ("Custom", ["Pub", "Sub"], "Allow"),
        "Topic:else": ("Custom", ["Pub", "Sub"], "Deny"),
        "Group:*": ("Default", ["Sub"], "Allow"),
    }
    tool.asks(Code.AUTH_DELETE_ACL, subject="User:a-writer", resource="Topic:orders")
    assert tool.rows()["a-writer"]["topicPerms"] == ["else=DENY"]
    gone = {"subject": "User:a-writer", "policyType": "Default", "resource": "Group:*"}
    tool.asks(Code.AUTH_DELETE_ACL, **gone)
    assert "defaultGroupPerm" not in tool.rows()["a-writer"]


def test_rows_of_any_legal_spelling_are_listed_and_taken_away(tool: Tool) -> None:
    """What one administrator may write breaks nobody's commands."""
    bare = {"resource": "topic:a", "actions": ["sub"], "decision": "ALLOW"}
    nothing = dict.fromkeys(("topicPerms", "groupPerms", "takeOverProducers", "status", "admin"))
    for row in (
        {"policies": [bare], **nothing},
        {"policies": [{**bare, "type": "custom", "sourceIps": None}]},
        {"policies": None, "topicPerms": ["a = SUB"], "defaultTopicPerm": None},
    ):
        tool.asks(Code.CHANGE_ACCOUNTS, {"put": [{**CHIEF_ROW, "accessKey": "a-second", **row}]})
        assert tool.asks(Code.AUTH_LIST_USER)[0]["username"] == "a-second"
        listed = tool.asks(Code.LIST_ACCOUNTS)["accounts"]
        assert "null" not in json.dumps(listed)
        (acl,) = tool.asks(Code.AUTH_LIST_ACL)
        assert [one["resource"] for one in acl["policies"][0]["entries"]] == ["Topic:a"]
        assert tool.asks(Code.AUTH_GET_ACL, subject="User:a-second")["policies"]
        tool.asks(Code.AUTH_UPDATE_USER, {"userType": "Normal"}, username="a-second")
        tool.asks(Code.AUTH_DELETE_ACL, subject="User:a-second", resource="topic:a")
        assert tool.rows()["a-second"].get("policies", []) == []
        assert tool.rows()["a-second"].get("topicPerms", []) == []


@pytest.mark.parametrize(
    ("wanted", "words", "code", "subject", "one"),
    [
        (INVALID, "User:NAME", 3006, "Role:a-writer", entry("Topic:a")),
        (NOT_FOUND, "no account", 3006, "User:nobody-here", entry("Topic:a")),
        (INVALID, "Super", 3006, "User:a-writer", entry("Cluster:*")),
        (INVALID, "Super", 3007, "User:a-writer", entry("Topic:a", actions=["All"])),
        (INVALID, "is no address", 3007, "User:a-writer", entry("Topic:a", sourceIps=["here"])),
        (NOT_FOUND, "no account", 3008, "User:nobody-here", None),
        (NOT_FOUND, "no account", 3009, "User:nobody-here", None),
    ],
)
def test_acls_that_cannot_be_are_refused(
    tool: Tool, wanted: int, words: str, code: int, subject: str, one: Any
) -> None:
    body = None if one is None else {"policies": [{"entries": [one]}]}
    tool.is_refused(wanted, words, code, body, subject=subject)


def test_a_list_that_is_too_long_for_an_answer_is_refused(tool: Tool) -> None:
    """Accounts that may be, and of which nobody could list any, or with the loop held up."""
    many = [f"t{number}=PUB" for number in range(5_000)]
    wide = ["p" * 60_000]
    rows = [
        {**CHIEF_ROW, "accessKey": f"user-{number:03}", "topicPerms": many, "groupPerms": ["g=SUB"]}
        for number in range(11)
    ]
    tool.broker.parts.state.accounts.replay(rows, ())
    tool.is_refused(INVALID, "give a subject filter", Code.AUTH_LIST_ACL)
    tool.is_refused(INVALID, "give a subject filter", Code.AUTH_LIST_ACL, resourceFilter="t7")
    (one,) = tool.asks(Code.AUTH_LIST_ACL, subjectFilter="User:user-001", resourceFilter="Group")
    assert [row["resource"] for row in one["policies"][0]["entries"]] == ["Group:g"]
    rows = [
        {**CHIEF_ROW, "accessKey": f"wide-{number:03}", "takeOverProducers": wide}
        for number in range(140)
    ]
    assert len(tool.asks(Code.LIST_ACCOUNTS)["accounts"]) == 13
    tool.broker.parts.state.accounts.replay(rows, ())
    tool.is_refused(INVALID, "8388608 bytes; list users", Code.LIST_ACCOUNTS)
    assert len(tool.asks(Code.AUTH_LIST_USER)) == 153
    rows = [
        {
            "accessKey": f"wide-{number:03}",
            "secretKey": SECRET,
            "topicPerms": [f"{'t' * 60_000}=PUB"],
        }
        for number in range(140)
    ]
    tool.broker.parts.state.accounts.replay(rows, ())
    tool.is_refused(INVALID, "bytes; give a subject", Code.AUTH_LIST_ACL, subjectFilter="wide")
