"""Rules of access that are about more than one request: routes, answers, half messages."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import cluster.broker
from cluster.broker.kernel.net.client_calls import ClientCalls
from cluster.broker.kernel.net.requests import BoundHandler, HandlerRefused, Who, nothing, table
from cluster.core.access.needs import ACCOUNT
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame, encode_frame

from .access_world import (
    ACCOUNTS,
    FREE,
    GROUP,
    PRODUCERS,
    SETTINGS,
    TOPIC,
    VICTIM,
    Ask,
    Signing,
    World,
    heartbeat,
)
from .conftest import MakeBrokers
from .harness import RawClient, until


def _nothing_done(call: Any, request: None) -> None:
    """A request function."""


GOOD = BoundHandler(Who.ANYWHERE, nothing, ACCOUNT, _nothing_done)


@pytest.mark.parametrize("missing", ["read", "needs", "function"])
def test_a_route_without_a_rule_is_refused(missing: str) -> None:
    assert table({1: GOOD}) == {1: GOOD}
    with pytest.raises(HandlerRefused, match="request code 4711 has no reader, no rule"):
        table({4711: GOOD._replace(**{missing: None})})
    with pytest.raises(TypeError):
        BoundHandler(Who.ANYWHERE, nothing, _nothing_done)  # type: ignore[call-arg, arg-type]


def test_a_code_with_two_functions_is_refused() -> None:
    with pytest.raises(HandlerRefused, match="request code 1 has two functions"):
        table({1: GOOD}, {1: GOOD})


async def test_a_broker_with_a_route_without_a_rule_does_not_start(
    make_brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cluster.broker.pop import notice_requests

    bare: Any = GOOD._replace(needs=None)
    monkeypatch.setitem(notice_requests.ROUTES, 4711, bare)
    with pytest.raises(HandlerRefused, match="4711"):
        async with make_brokers():
            pass


def test_request_functions_never_look_into_the_frame() -> None:
    """What a function takes from the frame itself would be checked by nobody."""
    found = []
    for path in sorted(Path(cluster.broker.__file__).parent.rglob("*.py")):
        if "net" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in ("ext", "body")
                and isinstance(node.value, ast.Attribute)
                and node.value.attr in ("frame", "_frame")
            ):
                found.append(f"{path.parent.name}/{path.name}")
    # How long the body is, to keep no more of waiting requests than may be kept.
    # What a refused request said, for the audit log: nothing is done by it.
    assert found == ["audit/trail.py", "transactions/decisions.py"]


class _Channel:
    is_paused = False

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def answer(self, frame: Frame) -> None:
        self.frames.append(frame)


def test_an_answer_counts_only_on_the_connection_that_was_asked() -> None:
    later, heard = [], []
    calls = ClientCalls(lambda _, call: later.append(call), 7)
    asked, another = _Channel(), _Channel()
    calls.ask(asked, Frame(307, 0), 1.0, heard.append)
    forged = Frame(0, asked.frames[0].opaque, flag=1)
    assert not calls.answered(another, forged)
    assert heard == []
    assert calls.answered(asked, forged)
    assert heard == [forged]
    assert not calls.answered(asked, forged), "one answer is enough"
    later[0]()
    assert heard == [forged]


async def _world(make_brokers: MakeBrokers, tmp_path: Path, **settings: Any) -> Any:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    return make_brokers(acl_file=str(file), **{**SETTINGS, **settings})


async def test_a_forged_answer_settles_nothing(make_brokers: MakeBrokers, tmp_path: Path) -> None:
    """Every number that a question can have is answered by another client, before the one asked."""
    async with await _world(make_brokers, tmp_path) as brokers:
        leader = await brokers.leader()
        world = await World(brokers, leader, leader).open()
        silent: list[Frame] = []
        world.victim.client.notices = silent
        forger = world.callers["none"].client
        asking = world.boss.client
        ext = {"consumerGroup": GROUP, "clientId": VICTIM}
        world.victim_at_entry.client.close()
        await until(lambda: len(leader.parts.server.connections) == 9)
        await world.victim.ask(Code.HEART_BEAT, heartbeat(VICTIM, (PRODUCERS,), (GROUP,)))
        answer = _signed(world.boss, asking, Code.GET_CONSUMER_RUNNING_INFO, ext)
        question = await until(lambda: silent)
        forged = Frame(0, question[0].opaque, {}, b"forged", flag=1)
        forger.write(encode_frame(forged))
        await forger.ask(9999)
        assert not answer.done()
        world.victim.client.write(encode_frame(forged._replace(body=b"its own")))
        assert (await answer).body == b"its own"


def _signed(who: Signing, client: RawClient, code: int, ext: dict[str, str]) -> Any:
    from cluster.core.access.signature import sign

    fields = {**ext, "AccessKey": who.key}
    fields["Signature"] = sign(fields, b"", f"secret-of-{who.key}", 479)
    return client.ask(code, fields)


async def test_half_messages_are_shown_to_those_who_may_decide(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    """39 of a group that is nobody's: everybody may say that he produces for it."""
    quick = {"transaction_timeout_ms": 1, "transaction_check_interval_ms": 1}
    async with await _world(make_brokers, tmp_path, **quick) as brokers:
        leader = await brokers.leader()
        world = await World(brokers, leader, leader).open()
        for who in ("none", "else", "read", "write"):
            ask = heartbeat(f"{who}@1", (FREE,), ())
            assert (await world.callers[who].ask(Code.HEART_BEAT, ask)).code == 0
        for _ in range(4):  # each time another one is asked
            await world.sent(TOPIC, properties=f"TRAN_MSG\x01true\x02PGROUP\x01{FREE}\x02", f=4)
        told = {who: world.callers[who].client.notices for who in ("none", "else", "read", "write")}
        await until(lambda: len(told["write"]) >= 4)
        assert {who: len(notices) > 0 for who, notices in told.items()} == {
            "none": False,
            "else": False,
            "read": False,
            "write": True,
        }
        assert {notice.code for notice in told["write"]} == {Code.CHECK_TRANSACTION_STATE}


async def test_a_right_that_was_taken_back_ends_what_is_asked(
    make_brokers: MakeBrokers, tmp_path: Path
) -> None:
    """A client that registered while it might: its account counts as it is when it is asked."""
    quick = {"transaction_timeout_ms": 1, "transaction_check_interval_ms": 1}
    async with await _world(make_brokers, tmp_path, **quick) as brokers:
        leader = await brokers.leader()
        world = await World(brokers, leader, leader).open()
        writer = world.callers["write"]
        ask = heartbeat("write@1", (FREE,), ())
        assert (await writer.ask(Code.HEART_BEAT, ask)).code == 0
        access = leader.parts.access
        assert access is not None
        (tmp_path / "plain_acl.yml").write_text(
            ACCOUNTS.replace(f"topicPerms: [{TOPIC}=PUB]", f"topicPerms: [{TOPIC}=DENY]")
        )
        access.look_again()
        table = leader.parts.transactions.table
        await world.sent(TOPIC, properties=f"TRAN_MSG\x01true\x02PGROUP\x01{FREE}\x02", f=4)
        position = world.position
        await until(lambda: (half := table.get(position)) is not None and half.checks > 1)
        assert writer.client.notices == []
        assert (await writer.ask(Code.HEART_BEAT, Ask(ask.ext, ask.body))).code == 0
