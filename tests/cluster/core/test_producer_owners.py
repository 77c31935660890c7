"""Owners of producer ids as a fold over the log: order, forgetting, checkpoints."""

from __future__ import annotations

import json

import pytest

from cluster.core.apply import AppliedState
from cluster.core.delay.copies import read_pieces
from cluster.core.internal_topics import ProducerOwned
from commitlog.records.hosts import Host, pack_host
from commitlog.records.message_fast import encode_record, topic_field
from dledger.core.types import Index
from dledger.errors import OutcomeUnknown, SequenceGap
from dledger.producers.table import ProducerTable

from .contents import difference
from .histories import History
from .test_tables import fresh, replay


def history() -> History:
    """Nothing yet."""
    return History(0, 0)


def say(log: History, producer: str, number: int, queue: int = 0) -> None:
    log.add("A", queue, properties=b"__PID\x01%b\x02__SEQ\x01%d\x02" % (producer.encode(), number))


def order(state: AppliedState) -> list[str]:
    return list(dict.fromkeys(row[0] for row in state.producers.export()))


@pytest.mark.parametrize("ends", [[4], [0, 1, 2, 3, 4], [1, 4]])
def test_who_was_heard_last_does_not_depend_on_pieces(ends: list[int]) -> None:
    """An owner's record stands between numbers that are folded together."""
    log = history()
    say(log, "q", 0)
    log.change(ProducerOwned("p", "account-a"))
    say(log, "p", 0)
    say(log, "q", 1)
    log.change(ProducerOwned("p", "account-b"))
    state = fresh()
    replay(state, log.log, ends)
    assert order(state) == ["q", "p"]
    assert (state.producers.owner("p"), state.producers.owner("q")) == ("account-b", None)
    whole = fresh()
    replay(whole, log.log, [4])
    assert difference(state, whole, {"Run.first_index", "Run.last_index"}) == []


def test_an_owner_goes_with_its_numbers() -> None:
    log = history()
    for producer in "pqrs":
        log.change(ProducerOwned(producer, "account-a"))
        say(log, producer, 0)
    state = fresh(producers_max=3)
    replay(state, log.log, [7])
    assert state.producers.owner("p") is None
    assert "p" not in state.producers
    assert order(state) == ["q", "r", "s"]


def test_an_owner_without_numbers_keeps_its_place_in_a_checkpoint() -> None:
    log = history()
    say(log, "a", 0)
    log.change(ProducerOwned("b", "account-a"))
    say(log, "c", 0)
    state, after = fresh(), fresh()
    replay(state, log.log, [2])
    after.restore(state.to_checkpoint(), lambda *_: True)
    assert difference(state, after) == []
    assert list(after.producers._applied) == ["a", "b", "c"]


def test_a_checkpoint_of_a_version_without_owners_is_not_believed() -> None:
    """The log tells them; only where it begins behind them are ids without owners taken."""
    log = history()
    log.change(ProducerOwned("p", "account-a"))
    say(log, "p", 0)
    state, after, behind = fresh(), fresh(), fresh()
    replay(state, log.log, [1])
    value = json.loads(state.to_checkpoint())
    del value["owners"]
    with pytest.raises(ValueError, match="no owners of producer ids"):
        after.restore(json.dumps(value).encode(), lambda *_: True)
    behind.restore(json.dumps(value).encode(), lambda *_: True, ownerless=True)
    assert behind.producers.next_sequence("p", "A/0") == 1
    assert behind.producers.owner("p") is None


def test_an_owner_that_comes_back_is_in_a_checkpoint() -> None:
    """Its producer is pushed out while a message of it is on the way."""
    log = history()
    log.change(ProducerOwned("p", "account-a"))
    for producer, number in (("p", 0), ("q", 0), ("p", 1)):
        say(log, producer, number)
    state, after = fresh(producers_max=1), fresh(producers_max=1)
    replay(state, log.log, [2])
    assert "p" not in state.producers
    after.restore(state.to_checkpoint(), lambda *_: True)
    for each in (state, after):
        replay(each, log.log, [3])
        assert each.producers.owner("p") == "account-a"


def test_a_checkpoint_tells_whose_streams_were_forgotten() -> None:
    """Else a node that restarts calls a stored number "not done"; an old checkpoint tells none."""
    log = history()
    for producer, number, queue in (("p", 0, 0), ("p", 0, 1), ("q", 0, 0), ("p", 1, 0)):
        say(log, producer, number, queue)
    for producer in "rs":
        say(log, producer, 0)
    state, old = fresh(producers_max=1), fresh(producers_max=1)
    for end in range(3, 6):  # p came back; r came, and q is a departed one; s came, q is dropped
        state, after = fresh(producers_max=1), fresh(producers_max=1)
        replay(state, log.log, [end])
        after.restore(state.to_checkpoint(), lambda *_: True)
        assert difference(state, after) == []
        for each in (state, after):
            for producer in "pq":
                with pytest.raises(OutcomeUnknown):
                    each.producers.check(producer, "A/1", 1)
    new = fresh()
    replay(new, log.log, [5])
    value = json.loads(new.to_checkpoint())
    for name in ("partly_known", "all_may_be_partly_known"):
        del value[name]
    old.restore(json.dumps(value).encode(), lambda *_: True)
    with pytest.raises(SequenceGap):
        new.producers.check("s", "A/1", 1)
    with pytest.raises(OutcomeUnknown):
        old.producers.check("s", "A/1", 1)


def test_an_owner_alone_says_nothing_of_numbers() -> None:
    """What was stored under a forgotten id is not known, whoever owns it now."""
    table = ProducerTable()
    table.owned("p", "account-a", 5)
    assert table.check("p", "A/0", 0).skip == 0
    with pytest.raises(OutcomeUnknown, match="nothing is known"):
        table.check("p", "A/0", 7)
    table.committed("p", "A/1", 0, Index(3), 6)
    with pytest.raises(SequenceGap):
        table.check("p", "A/0", 7)


def test_a_copy_has_no_numbers_under_any_name() -> None:
    """Also an id that ends another name, which the table of producers would count; a name that ends
    in __SEQ is a user's own."""
    host = pack_host(Host("10.0.0.1", 1))
    properties = b"__PID\x01p\x02__SEQ\x011\x02k\x01v\x02x__PID\x01q\x02y__SEQ\x012\x02z\x01w\x02"
    record = encode_record(topic_field("A"), properties, b"b", 0, 0, 0, 5, host, host)
    assert read_pieces(record).properties == b"k\x01v\x02y__SEQ\x012\x02z\x01w\x02"
