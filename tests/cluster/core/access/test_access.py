"""Accounts, signatures and permissions: every captured signature is right, and every refusal says
what is missing."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from cluster.core.access.accounts import Accounts, AccountsError, read_accounts
from cluster.core.access.addresses import matcher
from cluster.core.access.needs import (
    ACCOUNT,
    ADMIN,
    as_producer,
    in_group,
    join,
    to_consume,
    to_know,
    to_publish,
    to_take_over,
)
from cluster.core.access.rules import ANYBODY, NOBODY, Caller, Denied, caller_of, claimed
from cluster.core.access.signature import is_signed, sign
from cluster.protocol.frames import FrameDecoder

VECTORS = json.loads(
    (Path(__file__).parents[3] / "data" / "vectors" / "remoting_vectors.json").read_text()
)
SECRETS = {"rocketmq2": "12345678", "ak": "sk", "": ""}


def _frame(row: dict[str, Any]) -> Any:
    (frame,) = FrameDecoder().feed(bytes.fromhex(row["frameHex"]))
    return frame


SIGNED = [
    (row["name"], frame)
    for row in [*VECTORS["computed"], *VECTORS["captured"]]
    for frame in [_frame(row)]
    if frame.ext.get("Signature")
]


@pytest.mark.parametrize(("name", "frame"), SIGNED, ids=[name for name, _ in SIGNED])
def test_every_signature_of_a_real_client_is_right(name: str, frame: Any) -> None:
    secret = SECRETS[frame.ext.get("AccessKey", "")]
    assert sign(frame.ext, frame.body, secret, frame.version) == frame.ext["Signature"]
    assert is_signed(frame.ext, frame.body, secret, frame.version)
    assert not is_signed(frame.ext, frame.body + b"x", secret, frame.version)
    assert not is_signed({**frame.ext, "b": "Other"}, frame.body, secret, frame.version)
    assert not is_signed(frame.ext, frame.body, secret + "x", frame.version)


def test_there_are_signed_frames_of_three_kinds() -> None:
    assert len(SIGNED) >= 8
    assert {frame.ext.get("AccessKey", "") for _, frame in SIGNED} == set(SECRETS)


def test_old_clients_add_a_field_after_signing() -> None:
    ext = {"topic": "T", "key": "k"}
    made = sign(ext, b"", "secret-key", 399)
    late = {**ext, "_UNIQUE_KEY_QUERY": "true"}
    assert sign(late, b"", "secret-key", 399) == made
    assert sign(late, b"", "secret-key", 400) != made


# ---- accounts ---------------------------------------------------------------------------------

DOCUMENT: dict[str, Any] = {
    "globalWhiteRemoteAddresses": ["10.9.*"],
    "accounts": [
        {
            "accessKey": "orders",
            "secretKey": "orders-secret",
            "whiteRemoteAddress": "192.168.0.7",
            "defaultTopicPerm": "DENY",
            "defaultGroupPerm": "SUB",
            "topicPerms": ["orders=PUB|SUB", "audit=PUB", "news=SUB"],
            "groupPerms": ["closed=DENY"],
        },
        {"accessKey": "master", "secretKey": "master-secret", "admin": True},
        {"accessKey": "payer0", "secretKey": "payer0-secret", "groupPerms": ["payments=PUB"]},
        {"accessKey": "reader", "secretKey": "reader-secret", "defaultTopicPerm": "SUB"},
    ],
}


def _accounts() -> Accounts:
    return read_accounts(DOCUMENT)


def _caller(key: str, body: bytes = b"", *, host: str = "1.2.3.4") -> Caller:
    fields = {"AccessKey": key, "b": "any"}
    fields["Signature"] = sign(fields, body, f"{key}-secret", 453)
    return caller_of(_accounts(), host, 310, fields, body, 453)


ORDERS = {
    "send": (to_publish("orders"), None),
    "send-pub-only": (to_publish("audit"), None),
    "send-sub-only": (to_publish("news"), "no PUB of topic news"),
    "send-unknown": (to_publish("unknown"), "no PUB of topic unknown"),
    "send-to-retry": (to_publish("%RETRY%any"), None),
    "send-to-closed-retry": (to_publish("%RETRY%closed"), "no SUB of group closed"),
    "pull": (to_consume("news", "any"), None),
    "pull-own-retry": (to_consume("%RETRY%any", "any"), None),
    "pull-pub-only": (to_consume("audit", "any"), "no SUB of topic audit"),
    "pull-closed-group": (to_consume("news", "closed"), "no SUB of group closed"),
    "pull-foreign-retry": (to_consume("%RETRY%closed", "any"), "no SUB of group closed"),
    "pull-foreign-dead": (to_consume("%DLQ%closed", "any"), "no SUB of group closed"),
    "pull-empty": (to_consume("", ""), "no SUB of topic "),
    "know-pub-only": (to_know("audit"), None),
    "know-unknown": (to_know("unknown"), "neither PUB nor SUB of topic unknown"),
    "group": (in_group("any"), None),
    "closed-group": (in_group("closed"), "no SUB of group closed"),
    "producer": (as_producer("anything"), None),
    "owned-producer": (as_producer("payments"), "no PUB of group payments"),
    "joined": (join([to_publish("orders"), to_consume("audit")]), "no SUB of topic audit"),
    "either": (to_publish("orders") | in_group("closed"), "no SUB of group closed"),
    "admin": (ADMIN, "admin accounts"),
    "account": (ACCOUNT, None),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_account_has_what_the_file_gives_it_and_no_more(name: str) -> None:
    needs, missing = ORDERS[name]
    assert _caller("orders").allows(needs) == (missing is None)
    if missing is not None:
        with pytest.raises(Denied, match=missing):
            _caller("orders").require(needs)
    _caller("master").require(needs)
    ANYBODY.require(needs)
    with pytest.raises(Denied, match="needs an account"):
        NOBODY.require(needs)


def test_the_group_of_a_producer_is_its_own_account_s() -> None:
    _caller("payer0").require(as_producer("payments"))


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_dledger_topics"])
def test_no_default_gives_the_broker_s_own_topics(topic: str) -> None:
    _caller("reader").require(to_consume("whatever"))
    with pytest.raises(Denied, match="no SUB"):
        _caller("reader").require(to_consume(topic))


def test_an_address_may_be_enough() -> None:
    accounts = _accounts()
    assert caller_of(accounts, "10.9.1.2", 310, {}, b"", 453) is ANYBODY
    free = caller_of(accounts, "192.168.0.7", 310, {"AccessKey": "orders"}, b"", 453)
    free.require(to_publish("orders"))
    with pytest.raises(Denied, match="no PUB of topic news"):
        free.require(to_publish("news"))
    with pytest.raises(Denied, match="signature"):
        caller_of(accounts, "192.168.0.8", 310, {"AccessKey": "orders"}, b"", 453)


def test_a_caller_whose_signature_was_checked_before_has_the_same_rights() -> None:
    accounts = _accounts()
    before = claimed(accounts, "1.2.3.4", "orders")
    assert before.key == "orders"
    assert [before.allows(needs) for needs, _ in ORDERS.values()] == [
        _caller("orders").allows(needs) for needs, _ in ORDERS.values()
    ]
    assert claimed(accounts, "10.9.1.2", "") is ANYBODY
    for key in ("", "nobody"):
        with pytest.raises(Denied, match="needs an account"):
            claimed(accounts, "1.2.3.4", key).require(ACCOUNT)


def test_no_key_a_strange_key_and_a_wrong_secret_are_told_apart() -> None:
    with pytest.raises(Denied, match="wants an account"):
        caller_of(_accounts(), "1.2.3.4", 310, {}, b"", 453)
    with pytest.raises(Denied, match="no account with access key 'nobody'"):
        caller_of(_accounts(), "1.2.3.4", 310, {"AccessKey": "nobody"}, b"", 453)
    fields = {"AccessKey": "orders", "b": "orders"}
    fields["Signature"] = sign(fields, b"body", "another-secret", 453)
    with pytest.raises(Denied, match="signature of access key 'orders' is wrong") as found:
        caller_of(_accounts(), "1.2.3.4", 310, fields, b"body", 453)
    assert "orders-secret" not in str(found.value)
    assert "orders-secret" not in repr(_accounts())


def test_a_signature_is_not_good_for_another_body() -> None:
    fields = {"AccessKey": "orders", "b": "orders"}
    fields["Signature"] = sign(fields, b"one", "orders-secret", 453)
    caller_of(_accounts(), "1.2.3.4", 310, fields, b"one", 453)
    with pytest.raises(Denied, match="signature"):
        caller_of(_accounts(), "1.2.3.4", 310, fields, b"two", 453)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"accessKey": "short"}, "accessKey has 5 characters"),
        ({"secretKey": ""}, "secretKey has 0 characters"),
        ({"admin": "yes"}, "admin is 'yes'"),
        ({"topicPerms": ["orders"]}, "not of the form"),
        ({"topicPerms": "orders=PUB"}, "write a list"),
        ({"groupPerms": ["g=ALL"]}, "'ALL' is no permission"),
        ({"whiteRemoteAddress": "1.2.3.400"}, "not within 0 to 255"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_a_wrong_file_says_where(change: dict[str, Any], what: str) -> None:
    row = {"accessKey": "orders", "secretKey": "orders-secret", **change}
    with pytest.raises(AccountsError, match=what):
        read_accounts({"accounts": [row]})


def test_a_key_twice_and_no_mapping_are_refused() -> None:
    row = {"accessKey": "orders", "secretKey": "orders-secret"}
    with pytest.raises(AccountsError, match="twice"):
        read_accounts({"accounts": [row, row]})
    for wrong in (None, [], "accounts", {"acounts": []}, {"accounts": ["x"]}):
        with pytest.raises(AccountsError):
            read_accounts(wrong)


@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("10.0.0.*", ["10.0.0.1", "10.0.0.255"], ["10.0.1.1", "110.0.0.1"]),
        ("10.0.*", ["10.0.9.9"], ["10.1.0.0"]),
        ("10.0.0.1-9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.10", "10.0.0.0"]),
        ("10.0.{1,2}.7", ["10.0.1.7", "10.0.2.7"], ["10.0.3.7"]),
        ("10.0.0.7", ["10.0.0.7"], ["10.0.0.70", "10.0.0", "", "::ffff:10.0.0.7"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2", "1.2.3.4"]),
    ],
)
def test_address_patterns(pattern: str, fits: list[str], not_fits: list[str]) -> None:
    found = matcher(pattern)
    assert all(found(host) for host in fits)
    assert not any(found(host) for host in not_fits)


@pytest.mark.parametrize(
    "pattern", ["", "10", "10.0.0", "a.b.c.d", "1.2.3.4.5", "10.0.0.9-1", "::g"]
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|address|appear"):
        matcher(pattern)


@pytest.mark.parametrize("place", ["0-1000000", "{0,1000000}", "9" * 5000, "0-" + "9" * 5000])
def test_a_pattern_is_looked_at_before_it_is_counted(place: str) -> None:
    """Anybody may send one to a cluster that has no accounts yet."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="not within 0 to 255"):
            matcher(f"1.1.1.{place}")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_producer_ids_that_may_be_taken_over() -> None:
    """By name, or by how they begin; nothing of it is a default."""
    row = {"accessKey": "account", "secretKey": "of-account"}
    given = read_accounts({"accounts": [{**row, "takeOverProducers": ["batch/q/*", "p*q"]}]})
    account = given.by_key["account"]
    taken = [account.may_take_over(name) for name in ("batch/q/0", "batch/q2/0", "p*q", "pxq")]
    assert taken == [True, False, True, False]
    caller = Caller(account)
    assert caller.allows(to_take_over("p*q"))
    with pytest.raises(Denied, match="may not take over producer other"):
        caller.require(to_take_over("p*q") | to_take_over("other"))
    assert not read_accounts({"accounts": [row]}).by_key["account"].may_take_over("p")
    for wrong in ("batch/q/*", [7], [""]):
        with pytest.raises(AccountsError, match="takeOverProducers"):
            read_accounts({"accounts": [{**row, "takeOverProducers": wrong}]})
