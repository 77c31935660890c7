"""A send that was passed on to a leader that is lost: the next one looks, and it is stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.broker.kernel.net.forward import ForwardLink
from cluster.broker.kernel.net.in_doubt import in_doubt
from cluster.broker.node import BrokerNode
from cluster.broker.produce import stored_before
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from commitlog.records.batch import BatchItem, encode_client_batch
from dledger.core.types import Index, Term
from tests.waiting import within

from .busy import done
from .by_hand import Asked, HandBroker, HandClient
from .conftest import MakeBrokers
from .harness import until

RELAY_PORT = 10915
SENT = {
    "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000123",
    "h": "0", "i": "UNIQ_KEY\x01K1\x02", "j": "0", "k": "false", "m": "false", "n": "broker-a",
}  # fmt: skip
HERE, ELSEWHERE = "10.0.0.9:1234", "10.0.0.9:1235"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[HandBroker]:
    """It led in term 1, and leads in a later one; the topic T is there."""
    broker = HandBroker(tmp_path)
    broker.lead()
    made = broker.client().send("T")
    broker.commit()
    done(made)
    yield broker
    broker.close()


def link(broker: HandBroker, address: str = HERE, term: int | None = None) -> HandClient:
    """A follower's link for a client at that address."""
    client = broker.client()
    said = {"clientAddress": address, "node": "n1", "life": "1", "to": "n0"}
    said["term"] = str(broker.log.term if term is None else term)
    client.ask(Code.FORWARD_HELLO, said, flag=FLAG_ONEWAY)
    return client


def ask(
    client: HandClient, after: int, term: int, body: bytes = b"x", code: int = 310, **sent: Any
) -> Asked:
    asked = in_doubt(Frame(code, 0, {**SENT, **sent}), Index(after), Term(term))
    return client.ask(asked.code, asked.ext, body)


def lost_once(broker: HandBroker, code: int = 310, body: bytes = b"x", **sent: Any) -> int:
    """A link's send is stored and its answer is lost, then this node leads again. The index."""
    client = link(broker)
    client.ask(code, {**SENT, **sent}, body)
    broker.commit()
    index = broker.log.applied
    broker.step_down()
    broker.lead()
    return index


def stored(broker: HandBroker) -> int:
    """How many messages queue 0 of T has beside the first one."""
    queue = broker.parts.derived.queue("T", 0)
    assert queue is not None
    return queue.max_offset - 1


def test_what_is_stored_is_answered_and_not_stored_again(broker: HandBroker) -> None:
    index = lost_once(broker)
    asked = ask(link(broker), index - 1, 1)
    assert done(asked).ext["queueOffset"] == "1"
    place = broker.parts.reader.place(Index(index))
    assert int(done(asked).ext["msgId"][16:], 16) == place.position
    broker.commit()
    assert stored(broker) == 1


def test_what_is_not_stored_is_stored_now(broker: HandBroker) -> None:
    after = broker.log.applied
    broker.step_down()
    broker.lead()
    asked = ask(link(broker), after, 1)
    broker.commit()
    assert done(asked).ext["queueOffset"] == "1"
    assert stored(broker) == 1


@pytest.mark.parametrize("other", ["key", "time", "address", "before"])
def test_another_send_is_not_taken_for_it(broker: HandBroker, other: str) -> None:
    """A client's own next try has another born time; what was applied before is none of it."""
    index = lost_once(broker)
    client = link(broker, ELSEWHERE if other == "address" else HERE)
    changed = {"key": {"i": "UNIQ_KEY\x01K2\x02"}, "time": {"g": "1700000000124"}}.get(other, {})
    asked = ask(client, index if other == "before" else index - 1, 1, **changed)
    broker.commit()
    assert done(asked).ext["queueOffset"] == "2"


def test_a_half_message_is_found_where_it_waits(broker: HandBroker) -> None:
    half = {"i": "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K1\x02", "f": "4"}
    index = lost_once(broker, **half)
    last = broker.log.store.last.index
    answer = done(ask(link(broker), index - 1, 1, **half))
    assert (answer.ext["transactionId"], broker.log.store.last.index) == ("K1", last)


def test_of_a_batch_all_is_found_or_the_outcome_stays_unknown(broker: HandBroker) -> None:
    items = [BatchItem(0, b"x", b"UNIQ_KEY\x01K%d\x02" % number) for number in range(3)]
    index = lost_once(broker, 320, encode_client_batch(items[:2]), m="true")
    client = link(broker)
    whole = ask(client, index - 2, 1, encode_client_batch(items[:2]), 320, m="true")
    assert done(whole).ext["queueOffset"] == "1"
    assert len(done(whole).ext["msgId"].split(",")) == 2
    part = ask(client, index - 2, 1, encode_client_batch(items), 320, m="true")
    assert part.code == 14
    broker.commit()
    assert stored(broker) == 2


def test_what_cannot_be_told_stays_unknown(
    broker: HandBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = lost_once(broker)
    client, now = link(broker), broker.log.term
    assert ask(client, index - 1, 1, i="").code == 14, "nothing to know it by"
    assert ask(client, index - 1, now).code == 14, "its record may be in this term"
    monkeypatch.setattr(stored_before, "ENTRIES_MAX", 2)
    assert ask(client, 0, 1).code == 14, "too much to look through"
    broker.commit()
    assert stored(broker) == 1


def test_only_a_node_of_the_cluster_may_ask_so(broker: HandBroker) -> None:
    assert ask(broker.client(), 0, 1).code == 16
    assert link(broker).ask(Code.SEND_IN_DOUBT, SENT).code not in (None, 0)


def test_a_link_is_served_in_its_own_term_only(broker: HandBroker) -> None:
    """Bytes that lay in a socket must not be stored after it was looked for in vain."""
    client, last = link(broker), broker.log.store.last.index
    broker.step_down()
    broker.lead()
    asked = client.ask(310, SENT, b"late")
    broker.commit()
    assert asked.answer is not None
    assert "leader" in asked.answer.ext, "certainly not done"
    assert stored(broker) == 0
    assert broker.log.store.last.index == last + 1, "its no-op"


def test_the_relay_itself_leads_next(broker: HandBroker) -> None:
    after = broker.log.applied
    broker.step_down()
    client = broker.client()
    asked = Asked()
    client._asked[7] = asked
    frame = in_doubt(Frame(310, 7, SENT, b"x"), Index(after), broker.log.term)
    broker.parts.router.again(client.connection, [frame], False)
    broker.turn(1.0)
    assert asked.answer is None, "held: who led in that term may be dead"
    broker.lead()
    broker.commit()
    assert done(asked).ext["queueOffset"] == "1"


def test_without_another_leader_the_sender_is_told_in_time(broker: HandBroker) -> None:
    broker.step_down()
    client = broker.client()
    asked = Asked()
    client._asked[7] = asked
    frame = in_doubt(Frame(310, 7, SENT, b"x"), Index(0), broker.log.term)
    broker.parts.router.again(client.connection, [frame], False)
    broker.turn(4.0)
    assert asked.code == 14


# -- real nodes ------------------------------------------------------------------------------------


def end_of_queue(node: BrokerNode) -> int:
    queue = node.parts.derived.queue("T", 0)
    return 0 if queue is None else queue.max_offset


def forget_answers(node: BrokerNode, patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    patch.setattr(ForwardLink, "_relay", lambda link, items: None)
    return lambda: end_of_queue(node) == 2


def forget_requests(node: BrokerNode, patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    seen: list[object] = []
    patch.setattr(node.parts.router, "sends", lambda connection, sends: seen.append(sends))
    return lambda: bool(seen)


@pytest.mark.parametrize("forget", [forget_answers, forget_requests])
async def test_a_leader_dies_with_a_send_that_a_relay_passed_on(
    make_brokers: MakeBrokers,
    forget: Callable[[BrokerNode, pytest.MonkeyPatch], Callable[[], bool]],
) -> None:
    async with make_brokers(3, relay_port=RELAY_PORT) as brokers:
        leader, relay = await brokers.leader(), await brokers.follower()
        client = await brokers.client_of(f"{relay.address.rpartition(':')[0]}:{RELAY_PORT}")
        assert (await client.send(properties="UNIQ_KEY\x01K0\x02")).code == 0
        with pytest.MonkeyPatch.context() as patch:
            took = forget(leader, patch)
            answer = client.send(properties="UNIQ_KEY\x01K1\x02")
            await until(took, "the leader has it")
        await brokers.stop_node(int(leader.config.node_id[1:]))
        assert (await within(answer, "an answer")).ext["queueOffset"] == "1"
        assert end_of_queue(await brokers.leader()) == 2, "it is there once"
