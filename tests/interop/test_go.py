"""The official Go client v2: what it can do, checked."""

from __future__ import annotations

from collections import Counter

import pytest

from .conftest import Case, Programs, cases
from .harness import toolchains
from .harness.checks import CHECKS, Check, Seen, exact_places, names, once_each
from .harness.content import labels


def send_batch(seen: Seen) -> None:
    """The client leaves the properties of a batch's items out: bodies tell them apart."""
    stored = seen.stored()
    assert [message.body.decode() for message in stored] == seen.facts["labels"]
    assert [message.queue_offset for message in stored] == list(range(10))
    assert len({message.queue for message in stored}) == 1
    assert seen.facts["sent"]["status"] == "SEND_OK"


def auto_create(seen: Seen) -> None:
    sent = seen.facts["sent"]
    stored = seen.stored()
    assert sorted(labels(stored)) == sorted(names(sent))
    exact_places(stored, sent)


def admin_topics(seen: Seen) -> None:
    assert seen.facts["queues"] == 1 + 3 + 1 + 3, "of the name, and of relays (next_queues.py)"
    assert {seen.topic, "TBW102"} <= set(seen.facts["topics"])


def retry_dlq(seen: Seen) -> None:
    """The client takes the delay from the number of times: ten seconds, and only one retry here."""
    received = seen.facts["received"]
    count = Counter(names(received))
    assert count == {"retry-0": 1, "retry-1": 2, "retry-2": 1, "retry-3": 2, "retry-4": 1}
    for label in ("retry-1", "retry-3"):
        first, again = [one for one in received if one["label"] == label]
        assert (first["reconsumed"], again["reconsumed"]) == (0, 1)
        assert again["at_ms"] - first["at_ms"] >= 9_900
    dead = seen.stored(f"%DLQ%{seen.facts['group']}")
    once_each([{"label": label} for label in labels(dead)], ["retry-1", "retry-3"])


def request_reply(seen: Seen) -> None:
    assert seen.facts["failed"] == []
    assert seen.facts["replies"] == [f"reply to ask-{number}" for number in range(5)]


OWN: dict[str, Check] = {
    "send_batch": send_batch,
    "auto_create": auto_create,
    "admin_topics": admin_topics,
    "retry_dlq": retry_dlq,
    "request_reply": request_reply,
}
SHARED = (
    *("send_sync", "send_async", "send_oneway", "push_concurrent", "push_orderly"),
    *("push_broadcast", "tag_filter", "sql_filter", "delay_levels", "transaction"),
    "transaction_check",
)
SMOKE = ("send_sync", "send_batch", "push_concurrent", "tag_filter")


@pytest.mark.timeout(600)  # the first test builds the client and runs all scenarios
@pytest.mark.parametrize(
    "case", cases([Case("go", n) for n in [*SHARED, *OWN]], [Case("go", n) for n in SMOKE])
)
def test_go(case: Case, programs: Programs) -> None:
    prefix, done = programs.of(case, toolchains.go, lambda name: name != "auto_create")
    check = OWN.get(case.scenario) or CHECKS[case.scenario]
    topic = f"{prefix}_{case.scenario}"
    check(Seen(done.of(case.scenario), topic, programs.nameserver))
