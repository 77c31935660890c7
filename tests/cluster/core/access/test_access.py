"""Accounts, signatures and permissions: every captured signature is right, and every refusal says
what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.core.access.accounts import Accounts, AccountsError, Permission, read_accounts
from cluster.core.access.addresses import matcher
from cluster.core.access.needs import needs_of
from cluster.core.access.rules import Denied, check
from cluster.core.access.signature import is_signed, sign
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FrameDecoder
from cluster.protocol.heartbeat import decode_heartbeat

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
    ],
}


def _accounts() -> Accounts:
    return read_accounts(DOCUMENT)


def _ask(
    code: int, body: bytes = b"", *, key: str = "orders", host: str = "1.2.3.4", **ext: str
) -> None:
    fields = {**ext, "AccessKey": key}
    fields["Signature"] = sign(fields, body, f"{key}-secret", 453)
    check(_accounts(), host, code, fields, body, 453)


@pytest.mark.parametrize("topic", ["orders", "audit"])
def test_sends_need_pub(topic: str) -> None:
    _ask(310, b"x", b=topic)
    _ask(10, b"x", topic=topic)


@pytest.mark.parametrize("topic", ["news", "unknown", "%RETRY%closed"])
def test_sends_without_pub_are_refused(topic: str) -> None:
    with pytest.raises(Denied, match=r"no (PUB of topic|SUB of group)"):
        _ask(310, b"x", b=topic)


def test_pulls_need_sub_of_topic_and_group() -> None:
    _ask(11, topic="news", consumerGroup="any")
    _ask(11, topic="%RETRY%any", consumerGroup="any")
    with pytest.raises(Denied, match="no SUB of topic audit"):
        _ask(11, topic="audit", consumerGroup="any")
    with pytest.raises(Denied, match="no SUB of group closed"):
        _ask(11, topic="news", consumerGroup="closed")


def test_heartbeats_are_looked_into() -> None:
    consumer = {
        "groupName": "any",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": [{"topic": "news", "subString": "*", "subVersion": 1}],
    }
    good = json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode()
    assert decode_heartbeat(good).consumers
    _ask(34, good)
    with pytest.raises(Denied, match="no SUB of topic audit"):
        _ask(34, good.replace(b"news", b"audit"))


@pytest.mark.parametrize("code", [17, 25, 200, 207, 215, 222, 31000, 31999])
def test_administration_is_for_admins(code: int) -> None:
    _ask(code, key="master")
    with pytest.raises(Denied, match="admin accounts"):
        _ask(code)


def test_an_address_may_be_enough() -> None:
    check(_accounts(), "10.9.1.2", 17, {}, b"", 453)
    check(_accounts(), "192.168.0.7", 310, {"AccessKey": "orders", "b": "orders"}, b"", 453)
    with pytest.raises(Denied, match="no PUB of topic news"):
        check(_accounts(), "192.168.0.7", 310, {"AccessKey": "orders", "b": "news"}, b"", 453)
    with pytest.raises(Denied, match="signature"):
        check(_accounts(), "192.168.0.8", 310, {"AccessKey": "orders", "b": "orders"}, b"", 453)


def test_no_key_a_strange_key_and_a_wrong_secret_are_told_apart() -> None:
    with pytest.raises(Denied, match="wants an account"):
        check(_accounts(), "1.2.3.4", 105, {}, b"", 453)
    with pytest.raises(Denied, match="no account with access key 'nobody'"):
        check(_accounts(), "1.2.3.4", 105, {"AccessKey": "nobody"}, b"", 453)
    fields = {"AccessKey": "orders", "b": "orders"}
    fields["Signature"] = sign(fields, b"body", "another-secret", 453)
    with pytest.raises(Denied, match="signature of access key 'orders' is wrong") as found:
        check(_accounts(), "1.2.3.4", 310, fields, b"body", 453)
    assert "orders-secret" not in str(found.value)
    assert "orders-secret" not in repr(_accounts())


def test_a_signature_is_not_good_for_another_body() -> None:
    fields = {"AccessKey": "orders", "b": "orders"}
    fields["Signature"] = sign(fields, b"one", "orders-secret", 453)
    check(_accounts(), "1.2.3.4", 310, fields, b"one", 453)
    with pytest.raises(Denied, match="signature"):
        check(_accounts(), "1.2.3.4", 310, fields, b"two", 453)


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


def test_needs_of_unknown_codes_is_an_account_only() -> None:
    needs = needs_of(4711, {"topic": "T"}, b"")
    assert not needs.topics
    assert not needs.groups
    assert not needs.admin
    assert needs_of(RequestCode.SEND_MESSAGE_V2, {"b": "T"}, b"").topics == (("T", Permission.PUB),)
