"""Well-formed frames with impossible content: told why, nothing stored, and the next one works."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from cluster.local.launcher import LocalCluster

from .frames import RawClient, pull_fields, raw, send_fields
from .node_process import BODY_SIZE_MAX, NodeProcess, dledger

TOPIC = "requests"
HEARTBEAT: dict[str, Any] = {
    "clientID": "c1",
    "producerDataSet": [],
    "consumerDataSet": [
        {
            "groupName": "CG",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}],
        }
    ],
}
ITEM = struct.Struct(">iiiii")


def item(body: bytes) -> bytes:
    """One message of a client batch, without properties."""
    return ITEM.pack(ITEM.size + len(body) + 2, 0, 0, 0, len(body)) + body + bytes(2)


def send(topic: str = TOPIC, queue: int = 0, body: bytes = b"x", **changes: Any) -> Any:
    return 310, send_fields(topic, queue, **changes), body


def offset(code: int, **changes: Any) -> Any:
    fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": 0, "commitOffset": 0, "timestamp": 0}
    return code, fields | changes, b""


def pull(**changes: Any) -> Any:
    return 11, pull_fields(TOPIC) | changes, b""


def heartbeat(body: Any) -> Any:
    return 34, {}, body if isinstance(body, bytes) else json.dumps(body).encode()


def properties(**pairs: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


# name: (request, response code, words of the remark)
REFUSED: dict[str, tuple[Any, int, str]] = {
    "a body over the limit": (
        send(body=b"z" * (BODY_SIZE_MAX + 1)),
        13,
        f"the body has {BODY_SIZE_MAX + 1} bytes and the limit is {BODY_SIZE_MAX}",
    ),
    "properties over the limit": (send(i=properties(a="v" * 40_000)), 13, "limit is 32767"),
    "no topic": (send(""), 29, "the topic is empty"),
    "a path as topic": (send("../../etc"), 29, "other characters than"),
    "a topic in letters of others": (send("тема"), 29, "other characters than"),
    "a long topic": (send("t" * 128), 29, "128 characters and 127 is the limit"),
    "the system's topic": (send("SCHEDULE_TOPIC_XXXX"), 16, "the system's own"),
    "the state's topic": (send("rmq_sys_dledger_offsets"), 16, "the system's own"),
    "a queue that is not there": (send(queue=99), 29, "99 is out of range.* has 4 queues"),
    "a queue beyond numbers": (send(queue=2**80), 29, "out of range"),
    "a queue that is a word": (send(queue="two"), 29, "number"),  # type: ignore[arg-type]
    "no fields at all": ((310, {}, b"x"), 29, "lacks its field a .producerGroup."),
    "a flag beyond its field": (send(h=10**30), 29, "its field"),
    "a time beyond its field": (send(g=10**30), 29, "its field"),
    "a half of a transaction that does not say so": (
        *(send(f=4), 29, "lacks its property TRAN_MSG; send it as true"),
    ),
    "a producer without a number": (send(i=properties(__PID="p")), 29, "__SEQ"),
    "a negative number": (send(i=properties(__PID="p", __SEQ="-1")), 29, "__SEQ"),
    "a producer without a name": (send(i=properties(__PID="", __SEQ="0")), 29, "1 to 64"),
    "an empty batch": ((320, send_fields(TOPIC), b""), 29, "no message"),
    "a batch cut off": ((320, send_fields(TOPIC), item(b"one") + item(b"two")[:-3]), 29, "byte 25"),
    "a batch of rubbish": ((320, send_fields(TOPIC), b"rubbish" * 9), 29, "malformed"),
    "a batch below zero": ((320, send_fields(TOPIC), struct.pack(">i", -1) * 9), 29, "malformed"),
    "pull from an unknown topic": (pull(topic="nowhere"), 17, "nowhere does not exist"),
    "pull from queue -1": (pull(queueId=-1), 29, "-1 is out of range"),
    "pull a word": (pull(queueOffset="first"), 29, "queueOffset is 'first'"),
    "pull by a broken SQL": (
        pull(expressionType="SQL92", subscription="a >"),
        23,
        "a value is missing at character 3",
    ),
    "pull by no language": (pull(expressionType="XPATH", subscription="a"), 23, "XPATH"),
    "pull without a heartbeat": (pull(sysFlag=0, consumerGroup="new"), 24, "no heartbeat"),
    "an offset below zero": (offset(15, commitOffset=-1), 29, "send 0 or more"),
    "an offset beyond a long": (offset(15, commitOffset=2**63), 29, "64-bit"),
    "an offset beyond everything": (offset(15, commitOffset=10**30), 29, "64-bit"),
    "an offset of a long group": (offset(15, consumerGroup="g" * 300), 29, "300 characters"),
    "an offset of no group": (offset(15, consumerGroup=""), 29, "the group is empty"),
    "an offset of an unknown topic": (offset(15, topic="nowhere"), 17, "does not exist"),
    "a maximum of an unknown topic": (offset(30, topic="nowhere"), 17, "does not exist"),
    "a time beyond a long": (offset(29, timestamp=10**30), 29, "64-bit"),
    "a heartbeat that is no JSON": (heartbeat(b"junk"), 29, "not JSON"),
    "an empty heartbeat": (heartbeat(b""), 29, "not JSON"),
    "a heartbeat that is a list": (heartbeat([]), 29, "no JSON object"),
    "a heartbeat of nobody": (heartbeat({}), 29, "clientID"),
    "a heartbeat with numbers": (heartbeat({"clientID": 1, "consumerDataSet": [7]}), 29, "lacks"),
    "a heartbeat of an unnamable group": (
        heartbeat(json.loads(json.dumps(HEARTBEAT).replace("CG", "C G"))), 29, "characters",
    ),
    "members of no group": ((38, {"consumerGroup": "nobody"}, b""), 1, "no consumer"),
    "a topic of too many queues": (
        (17, {"topic": "t", "defaultTopic": "TBW102", "readQueueNums": 10**6,
              "writeQueueNums": 8, "perm": 6}, b""), 29, "queues are impossible",
    ),
    "an unknown code": ((999, {}, b""), 3, "request type 999 not supported"),
    "a negative code": ((-7, {}, b""), 3, "request type -7 not supported"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, served: NodeProcess) -> None:
    (code, fields, body), wanted, words = REFUSED[name]
    with raw(served.client) as client:
        before = client.ask(310, send_fields(TOPIC, 3), b"before").ext["queueOffset"]
        for kind in (0, 1):
            answer = client.ask(code, fields, body, kind=kind)
            assert answer.code == wanted, answer.remark
            assert re.search(words, answer.remark or ""), answer.remark
            assert not answer.body
        after = client.ask(310, send_fields(TOPIC, 3), b"after").ext["queueOffset"]
        assert int(after) == int(before) + 1


def offset_of(client: RawClient, code: int) -> int:
    return int(client.ask(*offset(code)).ext["offset"])


def test_outside_the_queue_says_where_to_go(served: NodeProcess) -> None:
    with raw(served.client) as client:
        for _ in range(3):
            client.ask(*send("edges"))
        for at, goes_to in ((-5, 0), (99, 3), (2**63 - 1, 3)):
            answer = client.ask(*pull(topic="edges", queueOffset=at))
            assert (answer.code, answer.ext["nextBeginOffset"]) == (21, str(goes_to))
        for count in (-1, 0, 2**62):
            answer = client.ask(*pull(topic="edges", maxMsgNums=count))
            assert answer.code == 0
            assert answer.body


def test_odd_messages_are_kept_as_they_are(served: NodeProcess) -> None:
    """Legal, never seen: all of them are stored, found again, and the store stays whole."""
    odd = [
        send("odd", body=b""),
        send("odd", body=b"\0" * 5000),
        send("odd", body=b"z" * BODY_SIZE_MAX),
        send("odd", i=properties(KEYS="ключ 键 😀", TAGS="тег")),
        send("odd", i=properties(KEYS=" ".join(f"k{n}" for n in range(3000)))),
        send("odd", i=properties(UNIQ_KEY="mine")),
        send("odd", i=properties(KEYS="a") + properties(KEYS="b")),
        send("odd", i="KEYS\x01no end"),
        send("odd", i="junk"),
        send("odd", i="\x01nameless\x02"),
        send("odd", i=properties(CLUSTER="x", TRACE_ON="y", MSG_REGION="z")),
        send("odd", f=1, body=b"said to be compressed"),
        send("odd", f=16 | 32),
        send("odd", g=-1, h=-1, j=-1),
        send("odd", a="", l=""),
        send("odd", n="another broker"),
    ]
    with raw(served.client) as client:
        for number, request in enumerate(odd):
            answer = client.ask(*request)
            assert (answer.code, answer.ext["queueOffset"]) == (0, str(number)), answer.remark
            found = client.ask(*pull(topic="odd", queueOffset=number, maxMsgNums=1))
            assert found.code == 0, found.remark
            assert request[2] in found.body
            by_id = client.ask(33, {"offset": int(answer.ext["msgId"][16:], 16), "topic": "odd"})
            assert by_id.body == found.body
    seen = dledger("inspect", str(served.root), "-o", "jsonl", home=served.folder)
    rows = [json.loads(line) for line in seen.text.splitlines() if line.startswith("{")]
    stored = [row for row in rows if row["topic"] == "odd"]
    assert [row["queue_offset"] for row in stored] == list(range(len(odd)))
    assert [row["body_size"] for row in stored] == [len(request[2]) for request in odd]


def test_a_follower_refuses_like_the_leader(local_cluster: LocalCluster) -> None:
    leader = local_cluster.leader()
    assert leader is not None
    follower = next(name for name in local_cluster.brokers if name != leader)
    with raw(local_cluster.profile.member(follower).client) as client:
        assert client.ask(*send()).code == 0
        for name, (request, wanted, words) in REFUSED.items():
            if name == "a body over the limit":
                continue  # this cluster's limit is another one
            answer = client.ask(*request)
            assert answer.code == wanted, f"{name}: {answer.remark}"
            assert re.search(words, answer.remark or ""), f"{name}: {answer.remark}"
        assert client.ask(*send(body=b"z" * ((4 << 20) + 1))).code == 13
        assert client.ask(*send()).code == 0


def test_the_command_line_says_it_too(local_cluster: LocalCluster, tmp_path: Path) -> None:
    address = ("-a", local_cluster.nameserver)
    wrong = [
        (("topic", "describe", "nowhere"), 3, "nowhere"),
        (("consume", "nowhere", "-n", "1"), 3, "nowhere"),
        (("topic", "create", "no spaces"), 1, "characters"),
        (("produce", "no spaces"), 1, "characters"),
    ]
    for arguments, code, words in wrong:
        ended = dledger(*arguments, *address, home=tmp_path, stdin=b"line\n")
        assert ended.code == code, ended.text
        assert words in ended.sentence
        assert "Traceback" not in ended.text


def test_a_line_over_the_limit_is_not_cut_in_two(
    local_cluster: LocalCluster, tmp_path: Path
) -> None:
    address = ("-a", local_cluster.nameserver)
    lines = b"one\n" + b"z" * ((4 << 20) + 1) + b"\nthree\n"
    ended = dledger("produce", "long-lines", *address, home=tmp_path, stdin=lines)
    assert ended.code == 2, ended.text
    assert "line 2 has more than 4194304 bytes" in ended.sentence
    lines = b"z" * (4 << 20) + b"\n"
    assert dledger("produce", "long-lines", *address, home=tmp_path, stdin=lines).code == 0
    seen = dledger("topic", "describe", "long-lines", *address, "-o", "json", home=tmp_path)
    assert sum(row["messages"] for row in json.loads(seen.text)) == 2
