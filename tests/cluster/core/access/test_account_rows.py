"""The one form of an account in the log: no second spelling, nothing null, all of it bounded."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.core.access.account_rows import ROW_BYTES_MAX, logged_row, row_size
from cluster.core.access.account_table import TABLE_BYTES_MAX, AccountTable
from cluster.core.access.accounts import AccountsError, read_account
from cluster.core.access.policies import POLICIES_MAX
from cluster.core.internal_topics import (
    AccountsChanged,
    StateRecordError,
    decode_change,
    encode_change,
)
from cluster.core.topics import ACCOUNTS_TOPIC

ROW = {"accessKey": "a-writer", "secretKey": "drawn-for-this"}
POLICY = {"type": "Custom", "resource": "Topic:a", "actions": ["Sub"], "decision": "Allow"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"admin": None, "topicPerms": None, "policies": None, "status": None}, {}),
        ({"admin": False, "sealed": "optional", "status": "enable", "policies": []}, {}),
        ({"defaultTopicPerm": "DENY", "whiteRemoteAddress": ""}, {}),
        ({"admin": True, "status": "disable"}, {"admin": True, "status": "disable"}),
        ({"sealed": "required"}, {"sealed": "required"}),
        ({"defaultGroupPerm": " SUB | PUB"}, {"defaultGroupPerm": "PUB|SUB"}),
        ({"topicPerms": ["a =PUB", "b=DENY", "a=SUB"]}, {"topicPerms": ["a=SUB", "b=DENY"]}),
        ({"whiteRemoteAddress": "10.0.0.*"}, {"whiteRemoteAddress": "10.0.0.*"}),
        (
            {"policies": [{"resource": "topic:a", "actions": ["SUB", "get"], "decision": "allow"}]},
            {"policies": [POLICY]},
        ),
        (
            {"policies": [{**POLICY, "type": None, "sourceIps": None}]},
            {"policies": [POLICY]},
        ),
        ({"policies": [{**POLICY, "type": "custom"}]}, {"policies": [POLICY]}),
    ],
)
def test_a_row_has_one_form(given: dict[str, Any], kept: dict[str, Any]) -> None:
    found = logged_row({**ROW, **given})
    assert found == {**ROW, **kept}
    assert logged_row(found) == found
    without_null = {name: value for name, value in given.items() if value is not None}
    policies = [
        {name: value for name, value in policy.items() if value is not None}
        for policy in without_null.get("policies", ())
    ]
    again = read_account({**ROW, **without_null, "policies": policies})
    for side in (read_account(found), again):
        assert (side.topics, side.policies, side.admin, side.enabled, side.sealed) == (
            again.topics,
            again.policies,
            again.admin,
            again.enabled,
            again.sealed,
        )


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"accessKey": "k" * 256}, "255 are the limit"),
        ({"policies": [{**POLICY, "sourceIps": ["fe80::1%eth0/128"]}]}, "without %eth0,"),
        ({"accessKey": "\u20ac" * 86}, "255 are the limit"),
        ({"accessKey": 12345678}, "put it in quotes"),
        ({"secretKey": ["a", "b"]}, "put it in quotes"),
        ({"secretKey": "s" * 1025}, "1024 are the limit"),
        ({"takeOverProducers": ["p" * ROW_BYTES_MAX]}, "bytes and 65536 are the limit"),
        ({"policies": [POLICY] * (POLICIES_MAX + 1)}, "policies of one account|bytes and"),
        ({"topicPerms": ["%RETRY%g=DENY"]}, "say it in groupPerms"),
        ({"topicPerms": ["%DLQ%g=PUB"]}, "say it in groupPerms"),
        ({"policies": {"a": float("nan")}}, "cannot be kept"),
        ({"accessKey": "\ud800\ud800\ud800\ud800\ud800\ud800"}, "cannot be kept"),
        ({"policies": 7}, "write a list"),
        ({"policies": [{**POLICY, "sourceIps": ["10.0.0.1"] * 101}]}, "101 sourceIps and 100 are"),
        ({"policies": [{**POLICY, "resource": "Topic:%RETRY*"}]}, "asked about as their groups"),
        ({"policies": [{**POLICY, "resource": "topic:%DLQ*"}]}, "asked about as their groups"),
    ],
)
def test_what_cannot_be_kept_is_refused(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(AccountsError, match=word):
        logged_row({**ROW, **wrong})


def test_the_table_is_bounded_in_bytes() -> None:
    chief = {**ROW, "accessKey": "the-chief", "admin": True}
    wide = {**ROW, "takeOverProducers": ["p" * (ROW_BYTES_MAX - 200)]}
    rows = [{**wide, "accessKey": f"account-{at}"} for at in range(256)]
    table = AccountTable()
    table.replay([chief, *rows], ())
    size = sum(map(row_size, table.rows()))
    more = [{**wide, "accessKey": f"more-{at}"} for at in range(2)]
    assert size <= TABLE_BYTES_MAX < size + sum(map(row_size, more))
    with pytest.raises(AccountsError, match="16777216 are the limit"):
        table.check(more, ())
    table.check(more, ["account-0", "account-1"])


def test_a_state_that_cannot_be_read_changes_nothing() -> None:
    table = AccountTable()
    table.replay([{**ROW, "admin": True}], ())
    before = table.rows()
    with pytest.raises(AccountsError):
        table.restore([{"accessKey": "short"}])
    assert table.rows() == before
    assert list(table.accounts) == ["a-writer"]


@pytest.mark.parametrize(
    "field",
    [
        b'"secretKey":{"a":1e999}',
        b'"secretKey":[1e999,1,1,1,1,1,1,1]',
        b'"secretKey":' + b"[" * 500 + b"]" * 500,
        b'"secretKey":"drawn-for-this","whiteRemoteAddress":1e999',
        b'"secretKey":"drawn-for-this","topicPerms":[{"a=PUB":1e999}]',
        b'"secretKey":"\xed\xa0\x80-drawn-for-this"',
        b'"secretKey":"\\ud800-drawn-for-this"',
    ],
)
def test_a_record_that_no_table_can_hold_is_not_decoded(field: bytes) -> None:
    body = b'{"put":[{"accessKey":"a-writer",' + field + b"}]}"
    with pytest.raises(StateRecordError):
        decode_change(ACCOUNTS_TOPIC, body)


def test_a_table_and_its_checkpoint_take_what_is_decoded() -> None:
    policies = [{**POLICY, "sourceIps": ["10.0.0.0/8"]}]
    row = {**ROW, "admin": True, "topicPerms": ["a=PUB"], "policies": policies}
    change = AccountsChanged((logged_row(row),))
    decoded = decode_change(ACCOUNTS_TOPIC, encode_change(change).body)
    assert decoded == change
    table = AccountTable()
    table.replay(change.put, change.delete)
    assert table.rows() == [*change.put]
