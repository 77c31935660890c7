"""Who leads judges every request itself, by the accounts of now: over links, and what waited (R29).

A link's follower may lag, or have accounts of a file of its own: what it believed says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.kernel.net.in_doubt import in_doubt
from cluster.core.access.signature import sign
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from dledger.core.types import Index, Term

from .access_world import Ask, new_group, new_topic, pop, pull, send
from .by_hand import Asked, HandBroker, HandClient
from .hand_world import RecordingClient
from .harness import without_refusals

NO_PERMISSION, AGAIN, OK = 16, 14, 0
SECRET, ANOTHER = "drawn-for-this-test-alone", "another-secret-altogether"
CHIEF = {"accessKey": "the-chief", "secretKey": SECRET, "admin": True}
SECOND = {**CHIEF, "accessKey": "the-second"}
WRITER = {"accessKey": "a-writer", "secretKey": SECRET, "topicPerms": ["orders=PUB"]}
READER = {
    "accessKey": "a-reader",
    "secretKey": SECRET,
    "topicPerms": ["orders=SUB"],
    "groupPerms": ["readers=SUB"],
}
COMMITS, SUSPENDS, SUBSCRIBES = 1, 2, 4

#: The changes after which what was signed by `SECOND`, `WRITER` and `READER` is refused.
REVOCATIONS: tuple[Callable[[HandBroker], None], ...] = (
    lambda broker: change(broker, put=[{**row(key), "status": "disable"} for key in KEYS]),
    lambda broker: change(broker, delete=KEYS),
    lambda broker: change(broker, put=[{**row(key), "secretKey": ANOTHER} for key in KEYS]),
    lambda broker: change(broker, put=[{"accessKey": key, "secretKey": SECRET} for key in KEYS]),
)
KEYS = ("the-second", "a-writer", "a-reader")


def row(key: str) -> Mapping[str, Any]:
    return next(one for one in (SECOND, WRITER, READER) if one["accessKey"] == key)


def change(broker: HandBroker, put: Any = (), delete: Any = ()) -> None:
    broker.parts.state.accounts.replay(put, delete)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HandBroker]:
    """It leads, and has the topic `orders` and four accounts."""
    broker = HandBroker(tmp_path, cluster_secret="one for all of this test")
    broker.lead()
    made = broker.client().ask(17, new_topic("orders").ext)
    group = broker.client().ask(200, {}, new_group("readers").body)
    broker.commit()
    assert (made.code, group.code) == (OK, OK)
    change(broker, [CHIEF, SECOND, WRITER, READER])
    yield broker
    broker.close()


def link(broker: HandBroker) -> HandClient:
    """A link of the node n1, which has proved the secret."""
    client = broker.client()
    client.connection.forwarded_by, client.connection.link_term = "n1", broker.log.term
    return client


def ask(client: HandClient, code: int, asked: Ask, key: str, **more: Any) -> Asked:
    flag = more.pop("flag", 0)
    ext = {name: str(value) for name, value in asked.ext.items()}
    ext |= {"AccessKey": key}
    signed = {**ext, "Signature": sign(ext, asked.body, SECRET, 479)}
    return client.ask(code, {**signed, **more}, asked.body, flag=flag)


def stored(broker: HandBroker) -> int:
    return sum(broker.parts.state.queue_ends("orders", 8))


@pytest.mark.parametrize("revoke", REVOCATIONS, ids=("disabled", "deleted", "rotated", "rightless"))
def test_a_follower_that_lags_lets_nobody_do_what_its_account_may_no_longer(
    broker: HandBroker, revoke: Callable[[HandBroker], None]
) -> None:
    passed_on = link(broker)
    assert ask(passed_on, 17, new_topic("first"), "the-second").code is None, "on its way"
    assert ask(passed_on, 310, send("orders"), "a-writer").code is None
    broker.commit()
    assert broker.parts.state.topics.get("first") is not None
    assert stored(broker) == 1
    revoke(broker)
    asked = [
        ask(client, code, one, key, flag=flag)
        for client in (passed_on, broker.client())
        for flag in (0, FLAG_ONEWAY)
        for code, one, key in (
            (17, new_topic("second"), "the-second"),
            (Code.CHANGE_ACCOUNTS, Ask(body=b'{"delete":["the-chief"]}'), "the-second"),
            (310, send("orders", o=1), "a-writer"),
            (15, offset(), "a-reader"),
        )
    ]
    broker.commit()
    assert [one.code for one in asked] == [*[NO_PERMISSION] * 4, *[None] * 4] * 2
    assert broker.parts.state.topics.get("second") is None
    assert broker.parts.state.accounts.get("the-chief") is not None
    assert broker.parts.state.offsets.get("readers", "orders", 0) is None
    assert stored(broker) == 1


def offset() -> Ask:
    return Ask({"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 1})


def test_an_account_of_a_followers_own_file_is_none_of_the_leaders(broker: HandBroker) -> None:
    for key in ("of-a-file", "the-chief-of-a-file"):
        answer = ask(link(broker), 17, new_topic("made"), key).answer
        assert answer is not None
        assert answer.code == NO_PERMISSION
        assert "no account with access key" in (answer.remark or "")
    unsigned = link(broker).ask(17, new_topic("made").ext)
    assert unsigned.code == AGAIN, "the follower may not have heard of accounts yet"
    broker.commit()
    assert broker.parts.state.topics.get("made") is None


def test_a_move_of_the_lead_that_a_follower_passes_on_is_signed_without_its_addition(
    broker: HandBroker,
) -> None:
    """The follower names the leader that it knew, behind the signature."""
    move = Ask({"node": "n1"})
    ask(link(broker), Code.TRANSFER_LEADER, move, "the-second", leader="n0")
    assert len(broker.log.transfers) == 1
    forged = ask(link(broker), Code.TRANSFER_LEADER, move, "the-second", leader="n0", node="n2")
    assert forged.code == NO_PERMISSION
    assert ask(link(broker), 17, new_topic("x"), "the-second", leader="n0").code == NO_PERMISSION


@pytest.mark.parametrize("signed", [False, True])
def test_what_was_held_is_judged_before_it_is_passed_on(tmp_path: Path, signed: bool) -> None:
    """Accounts came while it waited: who signed it is asked, not who may have asked before."""
    broker = HandBroker(tmp_path, cluster_secret="one for all of this test")
    client = broker.client()
    made = new_topic("made")
    held = [ask(client, 17, made, "the-second")] if signed else [client.ask(17, made.ext)]
    held += [client.ask(17, {**made.ext, "AccessKey": "the-second"})]
    assert [one.code for one in held] == [None, None]
    change(broker, [CHIEF, SECOND])
    broker.step_down("n1")
    broker.turn(1.0)
    assert [one.code for one in held] == [None if signed else NO_PERMISSION, NO_PERMISSION]
    assert [frame.ext.get("AccessKey") for _, frame in broker.forwarded] == ["the-second"] * signed
    broker.close()


@pytest.mark.parametrize("leader", ["n1", None], ids=["passed on", "served here"])
@pytest.mark.parametrize("revoke", REVOCATIONS, ids=("disabled", "deleted", "rotated", "rightless"))
def test_what_was_held_does_nothing_that_its_account_may_no_longer(
    broker: HandBroker, revoke: Callable[[HandBroker], None], leader: str | None
) -> None:
    client = broker.client()
    broker.step_down(None)
    held = [
        ask(client, 17, new_topic("made"), "the-second"),
        ask(client, 310, send("orders"), "a-writer"),
        ask(client, 11, pull("orders", "readers"), "a-reader"),
    ]
    assert [one.code for one in held] == [None] * 3
    revoke(broker)
    if leader is None:
        broker.lead()
    else:
        broker.step_down(leader)
    broker.commit()
    assert [one.code for one in held] == [NO_PERMISSION] * 3
    assert broker.forwarded == []
    assert broker.parts.state.topics.get("made") is None
    assert stored(broker) == 0


def test_sends_that_a_leadership_refused_are_judged_when_they_are_asked_again(
    broker: HandBroker,
) -> None:
    """They wait with their signature: the next leader sees it, or this one looks again."""
    client = broker.client()
    ask(client, 310, send("orders"), "a-writer")
    broker.step_down(None)  # refused while it was not proposed: kept for the next leader
    broker.step_down("n1")
    broker.turn(1.0)
    ((_, frame),) = broker.forwarded
    assert frame.ext["Signature"]
    assert frame.ext["AccessKey"] == "a-writer"
    broker.forwarded.clear()
    broker.lead()
    refused = ask(client, 310, send("orders", o=1), "a-writer")
    broker.step_down(None)
    change(broker, delete=["a-writer"])
    broker.lead()
    broker.commit()
    assert refused.code == NO_PERMISSION
    assert stored(broker) == 0


def test_a_send_that_waited_for_its_topic_is_judged_again(broker: HandBroker) -> None:
    change(broker, [{**WRITER, "topicPerms": ["orders=PUB", "fresh=PUB"]}])
    client = broker.client()
    waits = ask(client, 310, send("fresh", c="TBW102"), "a-writer")
    assert waits.code is None
    change(broker, delete=["a-writer"])
    broker.commit()
    assert waits.code == NO_PERMISSION
    assert sum(broker.parts.state.queue_ends("fresh", 4)) == 0


@pytest.mark.parametrize("over_a_link", [True, False])
def test_a_send_in_doubt_of_an_account_that_may_no_longer_is_not_stored(
    broker: HandBroker, over_a_link: bool
) -> None:
    """It may have been stored before, so its outcome stays unknown."""
    broker.step_down()
    broker.lead()
    sent = send("orders", properties="UNIQ_KEY\x01K1\x02")
    ext = {name: str(value) for name, value in sent.ext.items()}
    ext |= {"AccessKey": "a-writer"}
    ext["Signature"] = sign(ext, b"", SECRET, 479)
    for revoked in (True, False):
        if revoked:
            change(broker, delete=["a-writer"])
        else:
            change(broker, [WRITER])
        client = link(broker) if over_a_link else broker.client()
        frame = in_doubt(Frame(310, 0, ext), broker.log.applied, Term(broker.log.term - 1))
        if over_a_link:
            asked = client.ask(frame.code, frame.ext)
        else:
            broker.parts.router.again(client.connection, [frame._replace(opaque=7)], True)
        broker.commit()
        assert stored(broker) == (not revoked)
        if over_a_link:
            assert asked.code == (AGAIN if revoked else OK)


def test_a_send_in_doubt_pays_its_quota_once_it_is_stored(broker: HandBroker) -> None:
    """It is not refused for the quota: an earlier leader may have stored it."""
    quota = {**WRITER, "maxMessages": 1}
    change(broker, [quota])
    for _ in range(2):
        settle(broker, "K1")
    assert stored(broker) == 1
    quotas = broker.parts.access.quotas
    (bucket, _) = quotas._uses["a-writer"].buckets
    assert bucket is not None
    assert bucket.left == 0, "the second was found in the log, and paid nothing"
    settle(broker, "K2")
    assert (stored(broker), bucket.left) == (2, -1)
    assert quotas.refused == {}


def settle(broker: HandBroker, key: str) -> None:
    """A follower passes a send in doubt on, to the leader of a later term."""
    broker.step_down()
    broker.lead()
    sent = send("orders", properties=f"UNIQ_KEY\x01{key}\x02")
    ext = {name: str(value) for name, value in sent.ext.items()} | {"AccessKey": "a-writer"}
    ext["Signature"] = sign(ext, b"", SECRET, 479)
    frame = in_doubt(Frame(310, 0, ext), Index(0), Term(broker.log.term - 1))
    asked = link(broker).ask(frame.code, frame.ext)
    broker.commit()
    assert asked.code == OK


def test_a_send_in_doubt_of_a_connection_without_signatures_closes_it(tmp_path: Path) -> None:
    broker = HandBroker(tmp_path, cluster_secret="one for all of this test")
    client = broker.client()
    assert not client.connection.whole_frames
    broker.lead()
    change(broker, [CHIEF])
    ext = {name: str(value) for name, value in send("orders").ext.items()}
    frame = in_doubt(Frame(310, 7, ext), Index(0), Term(1))
    broker.parts.router.again(client.connection, [frame], True)
    assert client.connection.closed
    broker.commit()
    assert stored(broker) == 0
    broker.close()


@pytest.mark.parametrize(
    ("code", "wait"),
    [
        (11, {"sysFlag": SUSPENDS | SUBSCRIBES, "suspendTimeoutMillis": 20_000}),
        (Code.POP_MESSAGE, {"pollTime": 20_000, "bornTime": 1_700_000_000_000}),
    ],
    ids=["pull", "pop"],
)
def test_what_waits_for_a_message_gets_none_by_rights_that_it_has_no_more(
    broker: HandBroker, code: int, wait: Mapping[str, Any]
) -> None:
    client = RecordingClient(broker)
    asked = pull if code == 11 else pop
    waits = ask(client, code, Ask({**asked("orders", "readers").ext, **wait}), "a-reader")
    broker.turn(0.1)
    assert waits.code is None, waits.answer
    change(broker, put=[{**READER, "topicPerms": []}])
    sent = ask(broker.client(), 310, send("orders", b"not for its eyes", e=0), "a-writer")
    broker.commit()
    assert sent.code == OK
    assert waits.code not in (None, OK)
    assert b"not for its eyes" not in bytes(client.written)
    again = ask(client, code, Ask({**asked("orders", "readers").ext, **wait}), "a-reader")
    assert again.code == NO_PERMISSION


@pytest.mark.parametrize(("code", "reads"), [(11, True), (11, False), (Code.PEEK_MESSAGE, True)])
def test_what_was_about_to_wait_is_judged_again_when_accounts_changed(
    broker: HandBroker, monkeypatch: pytest.MonkeyPatch, code: int, reads: bool
) -> None:
    """It is not among those that wait: the lead is being proved, or its client reads nothing."""
    client, late = broker.client(), list[Callable[[Any], None]]()
    monkeypatch.setattr(broker.log, "read_index", late.append)
    wait = {"sysFlag": SUSPENDS | SUBSCRIBES, "suspendTimeoutMillis": 20_000}
    asked = pull("orders", "readers") if code == 11 else pop("orders", "readers")
    waits = ask(client, code, Ask({**asked.ext, **wait}), "a-reader")
    broker.turn()
    assert (len(late), waits.code) == (1, None)
    monkeypatch.undo()
    if not reads:
        client.connection.pause_writing()
        late.pop()(None)
    change(broker, delete=["a-reader"])
    if reads:
        late.pop()(None)
    else:
        client.connection.resume_writing()
    sent = ask(broker.client(), 310, send("orders", b"not for its eyes", e=0), "a-writer")
    broker.commit()
    assert (sent.code, waits.code) == (OK, NO_PERMISSION)


def test_a_pop_that_looks_again_later_is_judged_again_when_accounts_changed(
    broker: HandBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[Callable[[Any], None]]()
    monkeypatch.setattr(broker.parts.derived, "when_shown", lambda _, then: shown.append(then))
    waits = ask(broker.client(), Code.POP_MESSAGE, pop("orders", "readers"), "a-reader")
    assert (len(shown), waits.code) == (1, None)
    monkeypatch.undo()
    change(broker, delete=["a-reader"])
    shown.pop()(None)
    broker.commit()
    assert waits.code == NO_PERMISSION


def test_a_pull_that_a_follower_serves_commits_its_offset_by_its_own_signature(
    broker: HandBroker,
) -> None:
    sent = ask(broker.client(), 310, send("orders", b"one", e=0), "a-writer")
    broker.commit()
    assert sent.code == OK
    broker.step_down("n1")
    commit = {"sysFlag": COMMITS | SUBSCRIBES, "commitOffset": 1, "queueOffset": 0}
    asked = Ask({**pull("orders", "readers").ext, **commit})
    served = ask(broker.client(), 11, asked, "a-reader")
    assert served.code == OK
    ((_, passed_on),) = broker.forwarded
    assert (passed_on.code, passed_on.is_oneway) == (11, True)
    broker.lead()
    for key, at in (("the-chief-of-a-file", None), ("a-reader", 1)):
        ext = {**passed_on.ext, "AccessKey": key}
        answer = link(broker).ask(passed_on.code, ext, flag=passed_on.flag)
        broker.commit()
        assert answer.code is None, "oneway"
        assert broker.parts.state.offsets.get("readers", "orders", 0) == at


def test_one_change_that_anybody_may_ask_costs_no_memory_and_leaves_no_mark(
    tmp_path: Path,
) -> None:
    """Without accounts everybody may begin with them, so what is sent is looked at before."""
    broker = HandBroker(tmp_path)
    broker.lead()
    without_refusals(broker.parts)
    before = broker.log.store.last.index
    policy = {"resource": "Topic:a", "actions": ["Sub"], "decision": "Allow"}
    for parts in (
        {"create": [{**CHIEF, "whiteRemoteAddress": "1.1.1.0-1000000"}]},
        {"create": [{**CHIEF, "whiteRemoteAddress": f"1.1.1.{'9' * 5000}"}]},
        {"create": [{**CHIEF, "accessKey": "k" * 256}]},
        {"create": [{**CHIEF, "policies": [policy] * 1001}]},
        {"create": [{**CHIEF, "takeOverProducers": ["p" * 70_000]}]},
        {"create": [{**CHIEF, "topicPerms": ["%RETRY%g=PUB"]}]},
        {"create": [{**CHIEF, "policies": [{**policy, "resource": "Topic:%RETRY%g"}]}]},
        {"create": [{**CHIEF, "secretKey": 1234567890}]},
        {"create": [CHIEF, CHIEF]},
        {"create": [CHIEF], "delete": ["the-chief"]},
        {"put": [{"accessKey": f"account-{at}"} for at in range(10_001)]},
    ):
        answer = broker.client().ask(Code.CHANGE_ACCOUNTS, {}, json.dumps(parts).encode())
        broker.commit()
        assert answer.code == 29, str(parts)[:100]
    assert broker.log.store.last.index == before, "no mark, either"
    assert broker.parts.state.level.value == 0
    broker.close()


def test_a_change_that_the_log_does_not_take_brings_no_mark(tmp_path: Path) -> None:
    broker = HandBroker(tmp_path)
    broker.lead()
    without_refusals(broker.parts)
    before = broker.log.store.last.index
    broker.parts.appender.body_size_max = 50  # more than the mark takes
    body = json.dumps({"create": [CHIEF]}).encode()
    answer = broker.client().ask(Code.CHANGE_ACCOUNTS, {}, body)
    broker.commit()
    assert answer.code == 29
    assert broker.log.store.last.index == before
    broker.close()
