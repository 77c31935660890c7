"""What each scenario's facts must be: counts and content, judged here and not by the program.

One function per scenario, for every client that has it: (facts, topic content reader) → asserts.
Facts of a sent or a received message: label, id, broker, queue, offset, ...
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cluster.client import ReceivedMessage
from cluster.nameserver.next_queues import SECOND_PREFIX
from cluster.nameserver.relays import RELAY_PREFIX

from .content import labels, read_topic
from .running import Facts

# How much later than due a delayed message may come: the bar, and what a busy machine adds.
LATE_MS_MAX = 1_000 + 1_500


@dataclass(frozen=True, slots=True)
class Seen:
    """One scenario: its facts, the topic it used, where to look for what the cluster holds."""

    facts: Facts
    topic: str
    nameserver: str

    def stored(self, topic: str = "") -> list[ReceivedMessage]:
        return read_topic(self.nameserver, topic or self.topic)


Check = Callable[[Seen], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


# -- shared rules


RELAYS = (RELAY_PREFIX, SECOND_PREFIX)


def place(fact: Facts) -> tuple[str | None, int, int]:
    """Where a program says that a message lies; what a relay took lies in its real name's queue."""
    broker = fact["broker"]
    if broker and broker.startswith(RELAYS):
        broker = broker[len(RELAY_PREFIX) :]
    return broker, fact["queue"], fact["offset"]


def names(facts: Iterable[Facts]) -> list[str]:
    return [fact["label"] for fact in facts]


def once_each(received: Iterable[Facts], expected: Iterable[str]) -> None:
    """Every expected message came, and none twice or uncalled for."""
    count = Counter(names(received))
    assert count == Counter(expected), {
        "missing": sorted(set(expected) - set(count)),
        "too much": {label: n for label, n in count.items() if n > 1 or label not in expected},
    }


def stored_as_told(seen: Seen, sent: list[Facts]) -> list[ReceivedMessage]:
    """The topic holds exactly what was sent, each where its sender was told, under its id."""
    stored = seen.stored()
    assert sorted(labels(stored)) == sorted(names(sent))
    exact_places(stored, sent)
    return stored


def exact_places(stored: list[ReceivedMessage], sent: list[Facts]) -> None:
    """Each message lies where its sender was told, under the id that its sender gave it."""
    by_label = {message.properties["label"]: message for message in stored}
    for one in sent:
        assert one["status"] == "SEND_OK", one
        message = by_label[one["label"]]
        queue = message.queue
        assert (queue.broker_name, queue.queue_id, message.queue_offset) == place(one), one
        if one.get("id"):
            assert message.message_id == one["id"], one


def arrived_as_sent(received: Iterable[Facts], sent: Iterable[Facts]) -> None:
    """Each received message lies where its sender was told that it lies."""
    places = {one["label"]: place(one) for one in sent}
    for one in received:
        told, found = places[one["label"]], place(one)
        assert found == told or (found[0] is None and found[1:] == told[1:]), one
        assert one["key"] == f"k-{one['label']}", one


def rising(received: Iterable[Facts]) -> None:
    """Within each queue the offsets come in order."""
    last: dict[tuple[str, int], int] = {}
    for one in received:
        queue = one["broker"], one["queue"]
        assert one["offset"] > last.get(queue, -1), one
        last[queue] = one["offset"]


# -- sending


@check
def send_sync(seen: Seen) -> None:
    sent = seen.facts["sent"]
    assert len(sent) == 22
    assert len({one["id"] for one in sent}) == 22
    assert len({one["offset_id"] for one in sent}) == 22
    for message in stored_as_told(seen, sent):
        label = message.properties["label"]
        assert (message.tags, message.keys) == ("TagA", [f"k-{label}"])
        if label.startswith("sync-"):
            assert message.body == label.encode()
    by_label = {message.properties["label"]: message for message in seen.stored()}
    large = by_label["compressed"]
    assert large.body == b"x" * 50_000
    assert len(large.stored_body) < 1_000, "it came compressed and stays so in the log"
    assert len(by_label["noise"].body) == 1_000_000


@check
def send_async(seen: Seen) -> None:
    assert seen.facts["failed"] == []
    assert len(seen.facts["sent"]) == 50
    stored_as_told(seen, seen.facts["sent"])


@check
def send_oneway(seen: Seen) -> None:
    stored = seen.stored()
    assert sorted(labels(stored)) == sorted(seen.facts["labels"])
    assert len(stored) == 20


@check
def send_batch(seen: Seen) -> None:
    sent, expected = seen.facts["sent"], seen.facts["labels"]
    stored = seen.stored()
    assert labels(stored) == expected, "one queue, in the order of the batch"
    assert [message.queue_offset for message in stored] == list(range(len(expected)))
    assert {message.queue.queue_id for message in stored} == {sent["queue"]}
    assert sent["offset"] == 0
    assert len(sent["offset_id"].split(",")) == len(expected)
    assert [m.body.decode() for m in stored] == expected


@check
def auto_create(seen: Seen) -> None:
    shown = {one["broker"] for one in seen.facts["sent"]}
    relays = sum(name.startswith(RELAY_PREFIX) for name in shown)
    assert seen.facts["queues"] == 4 * (len(shown) - relays) + relays
    stored_as_told(seen, seen.facts["sent"])


# -- consuming


@check
def push_concurrent(seen: Seen) -> None:
    sent, first, second = (seen.facts[name] for name in ("sent", "first", "second"))
    count = Counter(names([*first, *second]))
    assert set(count) == set(names(sent)), "every message came"
    # While a queue changes hands what is not yet committed may come to both members.
    late = {one["label"] for one in sent[len(sent) // 2 :]}
    assert not {label for label in late if count[label] > 1}, "nothing twice once both had queues"
    arrived_as_sent([*first, *second], sent)
    shares = [
        {one["queue"] for one in member if one["label"] in late} for member in (first, second)
    ]
    assert all(shares), "both members took part"
    assert not shares[0] & shares[1], "no queue at two members"


@check
def push_orderly(seen: Seen) -> None:
    sent, received = seen.facts["sent"], seen.facts["received"]
    once_each(received, names(sent))
    arrived_as_sent(received, sent)
    rising(received)
    assert len(seen.facts["refused"]) == 2
    for chain in range(4):
        mine = [one["label"] for one in received if one["label"].startswith(f"chain{chain}-")]
        assert mine == [f"chain{chain}-{number}" for number in range(10)]


@check
def push_broadcast(seen: Seen) -> None:
    for member in ("first", "second"):
        once_each(seen.facts[member], names(seen.facts["sent"]))
        arrived_as_sent(seen.facts[member], seen.facts["sent"])


@check
def group_progress(seen: Seen) -> None:
    sent = seen.facts["sent"]
    once_each(seen.facts["before"], names(sent[:20]))
    once_each(seen.facts["after"], names(sent[20:]))


@check
def lite_pull(seen: Seen) -> None:
    sent = seen.facts["sent"]
    once_each(seen.facts["received"], names(sent))
    arrived_as_sent(seen.facts["received"], sent)
    rising(seen.facts["received"])
    ends: Counter[str] = Counter(f"{place(one)[0]}/{one['queue']}" for one in sent)
    assert seen.facts["committed"] == dict(ends)


@check
def lite_pull_assign(seen: Seen) -> None:
    sent = seen.facts["sent"]
    once_each(seen.facts["before"], names(sent))
    once_each(seen.facts["received"], names(one for one in sent if one["offset"] >= 5))
    assert set(seen.facts["offsets_of_time_0"].values()) == {0}


@check
def tag_filter(seen: Seen) -> None:
    once_each(seen.facts["received"], [f"f-{n}" for n in range(30) if n % 3 != 1])
    arrived_as_sent(seen.facts["received"], seen.facts["sent"])


@check
def sql_filter(seen: Seen) -> None:
    once_each(seen.facts["received"], ["f-12", "f-15", "f-18"])
    arrived_as_sent(seen.facts["received"], seen.facts["sent"])


@check
def pop(seen: Seen) -> None:
    """The broker gave the queues, and brought back what was refused, once."""
    sent, received = seen.facts["sent"], seen.facts["received"]
    count = Counter(names(received))
    assert sorted(seen.facts["refused"]) == ["pop-3", "pop-7"]
    assert count == {label: 1 + (label in ("pop-3", "pop-7")) for label in names(sent)}
    first = [one for one in received if not one["reconsumed"]]
    arrived_as_sent(first, sent)
    again = [one for one in received if one["reconsumed"]]
    assert sorted(names(again)) == ["pop-3", "pop-7"]
    for one in again:
        (before,) = [other for other in first if other["label"] == one["label"]]
        assert one["at_ms"] - before["at_ms"] >= 9_900, "the client asks for ten seconds"


@check
def pop_calls(seen: Seen) -> None:
    sent, first, again = (seen.facts[name] for name in ("sent", "first", "again"))
    once_each(first, names(sent))
    arrived_as_sent(first, sent)
    assert set(seen.facts["answers"]) == {"OK"}
    assert len(seen.facts["answers"]) == 3 + 3
    once_each(again, names(first)[3:])
    hidden, *left = sorted(again, key=lambda one: one["at_ms"])
    assert hidden["label"] == first[3]["label"], "it asked to come after a second"
    for one in again:
        assert one["topic"] == seen.topic
        assert one["reconsumed"] == 1
        assert one["handle"].split(" ")[4] == "1", "from the retry topic"
    popped = {one["label"]: int(one["first_pop"]) for one in first}
    for one in left:
        assert int(one["first_pop"]) == popped[one["label"]]
        assert one["at_ms"] - popped[one["label"]] >= 4_000
    assert seen.facts["last"] == 0


# -- later


@check
def retry_dlq(seen: Seen) -> None:
    received, dead = seen.facts["received"], seen.facts["dead"]
    count = Counter(names(received))
    assert count == {"retry-0": 1, "retry-1": 3, "retry-2": 1, "retry-3": 3, "retry-4": 1}
    sent = {one["label"]: one for one in seen.facts["sent"]}
    for label in ("retry-1", "retry-3"):
        mine = [one for one in received if one["label"] == label]
        assert [one["reconsumed"] for one in mine] == [0, 1, 2]
        for before, after in itertools.pairwise(mine):
            assert after["at_ms"] - before["at_ms"] >= 900, "level 1 is one second"
    once_each(dead, ["retry-1", "retry-3"])
    for one in dead:
        assert one["origin_topic"] == seen.topic
        assert one["origin_id"] == sent[one["label"]]["offset_id"]


@check
def retry_levels(seen: Seen) -> None:
    first, again = seen.facts["received"]
    assert (first["reconsumed"], again["reconsumed"]) == (0, 1)
    assert first["topic"] == again["topic"] == seen.topic
    assert 9_900 <= again["stored_ms"] - first["at_ms"] <= 10_000 + LATE_MS_MAX


def due(received: Iterable[Facts], delay_ms: Callable[[str], int]) -> None:
    """Each message was published when it was due, not earlier and not much later."""
    for one in received:
        late = one["stored_ms"] - one["born_ms"] - delay_ms(one["label"])
        assert -10 <= late <= LATE_MS_MAX, (late, one)


@check
def delay_levels(seen: Seen) -> None:
    received = seen.facts["received"]
    once_each(received, names(seen.facts["sent"]))
    delays = {"level0": 0, "level1": 1_000, "level2": 5_000, "level3": 10_000}
    due(received, lambda label: delays[label.partition("-")[0]])
    assert sorted(labels(seen.stored())) == sorted(names(seen.facts["sent"]))


@check
def timer(seen: Seen) -> None:
    received = seen.facts["received"]
    once_each(received, names(seen.facts["sent"]))
    for one in received:
        millis = int(one["label"].partition("-")[2])
        number = (millis - 1_500) // 500
        delay = millis // 1000 * 1000 if number % 3 == 1 else millis
        late = one["stored_ms"] - one["born_ms"] - delay
        assert -20 <= late <= LATE_MS_MAX, (late, one)


@check
def recall(seen: Seen) -> None:
    once_each(seen.facts["received"], ["recall-1", "recall-3"])
    taken = [one["id"] for one in seen.facts["sent"][::2]]
    assert seen.facts["recalled"] == taken


# -- both ways


@check
def transaction(seen: Seen) -> None:
    sent = seen.facts["sent"]
    assert len(sent) == 20
    committed = [f"commit-{number}" for number in range(10)]
    once_each(seen.facts["received"], committed)
    assert seen.facts["checked"] == []
    stored = seen.stored()
    assert sorted(labels(stored)) == sorted(committed), "what was rolled back is nowhere"
    ids = {one["label"]: one["id"] for one in sent}
    assert {m.properties["label"]: m.message_id for m in stored}.items() <= ids.items()


@check
def transaction_check(seen: Seen) -> None:
    kinds = ("unknown-commit", "unknown-rollback")
    asked = set(names(seen.facts["checked"]))
    assert asked == {f"{kind}-{number}" for kind in kinds for number in range(3)}
    assert {one["topic"] for one in seen.facts["checked"]} == {seen.topic}
    once_each(seen.facts["received"], [f"unknown-commit-{number}" for number in range(3)])


@check
def request_reply(seen: Seen) -> None:
    assert seen.facts["failed"] == []
    assert seen.facts["replies"] == [f"reply to ask-{number}" for number in range(5)]
    assert seen.facts["async_reply"] == "reply to ask-later"


@check
def trace(seen: Seen) -> None:
    sent = seen.facts["sent"]
    once_each(seen.facts["received"], names(sent))
    records = [record.split("\x01") for record in seen.facts["traces"]]
    published = [record for record in records if record[0] == "Pub"]
    ids = {one["id"] for one in sent}
    assert {id for record in published for id in record if id in ids} == ids


@check
def query(seen: Seen) -> None:
    facts, sent = seen.facts, seen.facts["sent"]
    stored_as_told(seen, sent)
    assert facts["by_key"] == ["q-7"]
    assert sorted(facts["by_shared_key"]) == sorted(names(sent))
    assert len(set(facts["by_key_at_most_5"])) == 5
    no_message = 208  # the client's own code for a question nobody had an answer to
    assert facts["by_unknown_key"] == no_message
    assert facts["by_key_too_early"] == no_message
    for found in (facts["by_unique_key"], facts["by_offset_id"]):
        assert (found["label"], found["id"]) == ("q-11", sent[-1]["id"])
        assert found["offset"] == sent[-1]["offset"]
    ends = Counter((place(one)[0], one["queue"]) for one in sent)
    for queue in facts["queues"]:
        end = ends[(queue["broker"].removeprefix(RELAY_PREFIX), queue["queue"])]
        assert (queue["min"], queue["max"]) == (0, end), queue
        assert (queue["at_time_before"], queue["at_time_after"]) == (0, end), queue
        assert not end or 0 <= queue["earliest_ms_after_start"] < 60_000, queue


# -- access


def exchanged(seen: Seen) -> None:
    sent: list[Any] = seen.facts["sent"]
    assert len(sent) == 10
    once_each(seen.facts["received"], names(sent))
    arrived_as_sent(seen.facts["received"], sent)


@check
def tls(seen: Seen) -> None:
    exchanged(seen)


@check
def acl(seen: Seen) -> None:
    refused = seen.facts["refused"]
    assert set(refused) == {"wrong secret", "unknown account", "without", "only reads"}
    # The client tells the broker's code within its own exception's text.
    assert all("CODE: 16 " in f"{said} " for said in refused.values()), refused
    exchanged(seen)
