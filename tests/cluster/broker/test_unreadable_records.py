"""No committed record makes a replica stop: what says nothing known is passed over, by each alike.

Every kind of record that the fold decodes is mutated, by a seed, and comes committed: its entry is
sound (the log's own checksums are made anew), whatever stands in it. Where a writer's check lets a
change pass, no table refuses it.
"""

from __future__ import annotations

import contextlib
import json
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cluster.core.apply import AppliedState
from cluster.core.delay.folds import DEFERRED_TOPICS, OUTCOMES_TOPIC
from cluster.core.feature_level import LEVEL_MAX
from cluster.core.internal_topics import (
    STATE_TOPICS,
    AccountsChanged,
    DelaysPassed,
    GroupsChanged,
    HalvesChecked,
    LevelRaised,
    LocksChanged,
    LogTrimmed,
    OffsetsCommitted,
    ProducerOwned,
    RequestModeChanged,
    StateChange,
    StateRecordError,
    TopicsChanged,
    checked_record,
    decode_change,
)
from cluster.core.live_settings import SettingsChanged
from cluster.core.pop import records as pop
from cluster.core.pop.names import revive_topic
from cluster.core.request_modes import RequestMode
from cluster.core.subscription_groups import new_group
from cluster.core.topics import TopicConfig, built_in_topics
from commitlog.records.message_fast import encode_record, topic_field
from dledger.core.types import Index, Term

from .test_derived import HOST, PHYSICAL_OFFSET_AT, Replica

SEEDS = 24  # of each kind
PLACE = pop.Place("g", "T", 0)
ACCOUNT = {"accessKey": "account", "secretKey": "drawn-for-this", "topicPerms": ["a=PUB"]}

CHANGES: Mapping[type, StateChange] = {
    TopicsChanged: TopicsChanged((TopicConfig("T", 4, 4, attributes={"+a": "b"}),), ("U",)),
    GroupsChanged: GroupsChanged((new_group("g"),), ("h",), True, {"g": {"T": 1}}),
    OffsetsCommitted: OffsetsCommitted("g", {"T": {0: 7, 1: 8}}),
    LocksChanged: LocksChanged("g", {("T", 0): "client", ("T", 1): ""}),
    RequestModeChanged: RequestModeChanged(RequestMode("T", "g", "POP", 2)),
    HalvesChecked: HalvesChecked({100: 2}),
    DelaysPassed: DelaysPassed({1: 5}, 1_000),
    LogTrimmed: LogTrimmed(4096),
    ProducerOwned: ProducerOwned("p", "alice"),
    LevelRaised: LevelRaised(0),
    AccountsChanged: AccountsChanged((ACCOUNT,), ("another",)),
    SettingsChanged: SettingsChanged({"reserved_hours": "48"}, ("audit_days",)),
}
POPS: Mapping[type, pop.PopRecord] = {
    pop.Taken: pop.Taken(PLACE, 3, 1_000, 60_000, (3, 4, 6), 3, 7, "b"),
    pop.Acked: pop.Acked(PLACE, 100, 3, 1_000, (3, 4), "b"),
    pop.OrderTaken: pop.OrderTaken(PLACE, 1_000, 60_000, (3, 4), "a", 3, 5),
    pop.OrderAcked: pop.OrderAcked(PLACE, 1_000, 3),
    pop.OrderHidden: pop.OrderHidden(PLACE, 1_000, 4, 99_000),
}
PROPERTIES = {
    "SCHEDULE_TOPIC_XXXX": b"DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x011\x02",
    "rmq_sys_wheel_timer": b"TIMER_DELAY_SEC\x0110\x02REAL_TOPIC\x01T\x02REAL_QID\x011\x02",
    "RMQ_SYS_TRANS_HALF_TOPIC": b"CHECK_IMMUNITY_TIME_IN_SECONDS\x016\x02REAL_TOPIC\x01T\x02",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": b"TAGS\x01d\x02",
}
NUMBERED = (
    b"__PID\x01p\x02__SEQ\x010\x02TAGS\x01a\x02KEYS\x01k l\x02UNIQ_KEY\x01" + b"A" * 32 + b"\x02"
)


@pytest.fixture(autouse=True)
def _every_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark above the node's own level stops it on purpose (tests/cluster/core/)."""
    monkeypatch.setattr("cluster.core.feature_level.LEVEL", LEVEL_MAX)


def test_every_kind_that_the_fold_decodes_has_a_sample() -> None:
    assert CHANGES.keys() == set(typing.get_args(StateChange))
    assert POPS.keys() == set(typing.get_args(pop.PopRecord))
    assert {name.encode() for name in PROPERTIES} == DEFERRED_TOPICS
    assert {checked_record(change).topic for change in CHANGES.values()} == STATE_TOPICS


def message(
    topic: str, properties: bytes, body: bytes, queue: int = 0, offset: int = 0, origin: int = 0
) -> bytearray:
    return encode_record(
        topic_field(topic), properties, body, queue, 0, 0, 0, HOST, HOST, 0, origin, offset, 0,
        2_000,
    )  # fmt: skip


def samples() -> Iterator[tuple[str, bytes, bytes]]:
    """Topic, properties and body of one record of each kind."""
    for change in CHANGES.values():
        record = checked_record(change)
        yield record.topic, b"", record.body
    for taken in POPS.values():
        tags, body = pop.encode_record(taken)
        yield revive_topic("C"), b"TAGS\x01%b\x02" % tags, body
    for topic, properties in PROPERTIES.items():
        yield topic, properties, b"0,1,"
        yield topic, NUMBERED + properties, b"body"
    yield OUTCOMES_TOPIC, b"", b'{"outcome":"discarded","why":"x"}'
    yield "T", NUMBERED, b"body"
    yield "%RETRY%g", b"1ST_POP_TIME\x011\x02POP_CK_OFFSET\x013\x02", b"again"


ODD = [
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 64, 10**400, 1.5, 1e308, "", "x", "\ud800", "\0",
    "n" * 40_000, "../T", [], [[]], {}, {"a": {}}, [None], [1, 2, 3, 4],
]  # fmt: skip
ODD_TEXTS = [
    b"", b"-1", b"00", b"1" * 19, b"9" * 5_000, b"x", b"\xff\xfe", b"1.5", b"\x00", b"n" * 20_000,
]  # fmt: skip


def odd_json(random: Random, value: Any) -> Any:
    """The value with one of its parts replaced, left out, or doubled under another name."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        changed = dict(value)
        match random.randrange(4):
            case 0:
                del changed[key]
            case 1:
                changed[random.choice(["", "-1", "x", str(1 << 70), "\ud800"])] = changed.pop(key)
            case _:
                changed[key] = odd_json(random, value[key])
        return changed
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], odd_json(random, value[at]), *value[at + 1 :]]
    return random.choice(ODD)


def odd_body(random: Random, body: bytes) -> bytes:
    match random.randrange(6):
        case 0:
            return body[: random.randrange(len(body) + 1)]
        case 1:
            return flipped(random, body)
        case 2:
            return random.choice(
                [b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b"1e999", b"\xff", b"null"]
            )
        case _ if body.startswith(b"{"):
            return json.dumps(odd_json(random, json.loads(body))).encode()
        case _:
            return random.randbytes(random.randrange(40))


def odd_properties(random: Random, properties: bytes) -> bytes:
    pairs = [pair.partition(b"\x01") for pair in properties.split(b"\x02") if pair]
    if pairs and random.random() < 0.8:
        at = random.randrange(len(pairs))
        name, mark, _ = pairs[at]
        pairs[at] = (name, mark, random.choice(ODD_TEXTS))
        return b"".join(b"".join(pair) + b"\x02" for pair in pairs)[:32_000]
    return flipped(random, properties)


def flipped(random: Random, data: bytes | bytearray, above: int = 0) -> bytes:
    """Some bits of it turned, from byte `above` on."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4) if len(changed) > above else 0):
        changed[random.randrange(above, len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def odd_record(random: Random, topic: str, properties: bytes, body: bytes) -> bytes | bytearray:
    """A body of an entry: a record that somebody else may have put there."""
    origin = random.choice([0, 0, 1, 100, (1 << 63) - 1, -(1 << 63)])
    queue = random.choice([0, 0, 0, 1, -1, 70_000, (1 << 31) - 1])
    offset = random.choice([0, 0, 0, 1, 5, -1, (1 << 63) - 1])
    match random.randrange(5):
        case 0:
            return flipped(random, message(topic, properties, body, origin=origin))
        case 1:
            return message(topic, odd_properties(random, properties), body, origin=origin)
        case 2:
            names = ["", "..", "a/b", "\0", "ü" * 60, "T", "n" * 255, *sorted(STATE_TOPICS)]
            return message(random.choice(names), properties, body, queue, offset, origin)
        case 3:
            return message(topic, properties, body, queue, offset, origin)
        case _:
            return message(topic, properties, odd_body(random, body))


MakeReplica = Callable[[str], Replica]


@pytest.fixture
def make_replica(tmp_path: Path) -> Iterator[MakeReplica]:
    """Makes replicas in folders of the test's own, and closes them behind it."""
    with contextlib.ExitStack() as open_ones:

        def make(name: str) -> Replica:
            found = Replica(tmp_path / name)
            open_ones.callback(found.derived.close)
            found.commit(3)
            found.derived.catch_up()
            return found

        yield make


@pytest.fixture
def found(make_replica: MakeReplica) -> Replica:
    return make_replica("one")


def commit(found: Replica, bodies: list[bytes | bytearray]) -> None:
    found.log.append(bodies, Term(1), stamp_at=PHYSICAL_OFFSET_AT)
    found.derived.apply(found.log.last.index)
    found.derived.catch_up()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_committed_record_stops_a_replica(
    found: Replica, make_replica: MakeReplica, seed: int
) -> None:
    random = Random(seed)
    bodies = [odd_record(random, *sample) for sample in samples() for _ in range(6)]
    bodies += [random.randbytes(random.randrange(40, 200)) for _ in range(6)]
    random.shuffle(bodies)
    for body in bodies:
        commit(found, [body])
    assert found.failures == []
    assert found.derived.behind == 0
    found.commit(2)
    found.derived.catch_up()
    queue = found.derived.queue("T", 1)
    assert queue is not None
    assert found.log.entry(found.log.last.index).header.position < found.derived.state.position
    assert_same_as_at_once(found, bodies, make_replica("other"))


def assert_same_as_at_once(found: Replica, bodies: list[Any], other: Replica) -> None:
    """Another replica that gets them in one batch, and one that began at a checkpoint."""
    state = found.derived.state
    commit(other, bodies)
    other.commit(2)
    other.derived.catch_up()
    assert other.failures == []
    assert json.loads(other.derived.state.to_checkpoint()) == json.loads(state.to_checkpoint())
    assert other.derived.passed_over == found.derived.passed_over
    again = AppliedState(built_in_topics("C", "B"))
    again.restore(state.to_checkpoint(), lambda *_: True)
    assert again.unreadable == state.unreadable


@pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
@pytest.mark.parametrize("topic", [*PROPERTIES, "T"])
def test_a_property_of_any_text_is_derived(found: Replica, topic: str, text: bytes) -> None:
    """Each name that the fold or the queues read, with what is no number, or no usual one."""
    for properties in (PROPERTIES.get(topic, b"") + NUMBERED, NUMBERED):
        for name in (pair.partition(b"\x01")[0] for pair in properties.split(b"\x02") if pair):
            others = [p for p in properties.split(b"\x02") if p and not p.startswith(name)]
            block = b"".join(pair + b"\x02" for pair in [name + b"\x01" + text, *others])
            commit(found, [message(topic, block, b"")])
    assert found.failures == []


def test_records_that_are_passed_over_are_counted_and_told(
    found: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    topic = checked_record(CHANGES[TopicsChanged]).topic
    commit(found, [message(topic, b"", b"{}"), *(message(topic, b"", b"no") for _ in range(5))])
    assert found.derived.state.unreadable == 5, "a change of nothing can be understood"
    assert caplog.text.count("passes it over") == 3, "the 1st, 2nd and 4th"
    assert "entry 4 is committed" in caplog.text


Make = Callable[[Random], StateChange]
NUMBERS = [-(1 << 70), -(1 << 63), -1, 0, 3, 70_000, 1 << 31, 1 << 63, 10**400]
TEXTS = ["", "T", "\ud800", "../T", "n" * 300, "\0"]


def any_change(random: Random) -> StateChange:
    """A change as a request may ask for it, when nobody has looked at its values."""
    number, text = (lambda: random.choice(NUMBERS)), (lambda: random.choice(TEXTS))
    bean: Any = random.choice(
        [
            new_group(text()),
            {},
            {"groupName": random.choice(ODD)},
            {**new_group("g"), "x": number()},
        ]
    )
    return random.choice(
        [
            TopicsChanged((TopicConfig(text(), number(), number(), number()),), (text(),)),
            GroupsChanged((bean,), (text(),), True, {text(): {text(): number()}}),
            OffsetsCommitted(text(), {text(): {number(): number()}}),
            LocksChanged(text(), {(text(), number()): text()}),
            RequestModeChanged(RequestMode(text(), text(), "POP", number())),
            HalvesChecked({number(): number()}),
            DelaysPassed({number(): number()}, number()),
            LogTrimmed(number()),
        ]
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_the_check_before_append_lets_pass_is_applied(found: Replica, seed: int) -> None:
    random, passed = Random(seed), 0
    for _ in range(100):
        try:
            record = checked_record(any_change(random))
        except StateRecordError:
            continue
        passed += 1
        commit(found, [message(record.topic, b"", record.body)])
    assert passed > 5
    assert (found.failures, found.derived.state.unreadable) == ([], 0)
    found.derived.state.to_checkpoint()


@pytest.mark.parametrize("topic", sorted(STATE_TOPICS))
def test_what_a_table_cannot_hold_is_refused_by_name(topic: str) -> None:
    for body in (b"[]", b"1", b'{"put":[{}]', b'{"put":[{}],"offsets":1,"checks":[]}', b"\xff"):
        with pytest.raises(StateRecordError, match=topic):
            decode_change(topic, body)


def test_the_samples_themselves_are_understood(found: Replica) -> None:
    commit(found, [message(*sample) for sample in samples()])
    assert (found.failures, found.derived.passed_over) == ([], 0)
    assert found.derived.state.applied == Index(2 + len(list(samples())))
