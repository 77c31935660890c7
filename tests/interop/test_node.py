"""The Node client (npm ali-ons): what it can do, checked."""

from __future__ import annotations

import pytest

from .conftest import Case, Programs, cases
from .harness import toolchains
from .harness.checks import CHECKS, Check, Seen, arrived_as_sent, names, once_each, stored_as_told


def send_sync(seen: Seen) -> None:
    assert len(seen.facts["sent"]) == 20
    for message in stored_as_told(seen, seen.facts["sent"]):
        label = message.properties["label"]
        assert (message.tags, message.keys) == ("TagA", [f"k-{label}"])
        assert message.body == label.encode()
        assert message.message_id, "the broker gives an id to what came without one"


def push_concurrent(seen: Seen) -> None:
    sent, received = seen.facts["sent"], seen.facts["received"]
    once_each(received, names(sent))
    arrived_as_sent(received, sent)
    assert all(one["body"] == one["label"] and one["tag"] == "TagA" for one in received)


def retry(seen: Seen) -> None:
    received = seen.facts["received"]
    assert sorted(names(received)) == ["retry-0", "retry-1", "retry-1", "retry-2"]
    first, again = [one for one in received if one["label"] == "retry-1"]
    assert (first["reconsumed"], again["reconsumed"]) == (0, 1)
    assert again["at_ms"] - first["at_ms"] >= 9_900, "level 3"


OWN: dict[str, Check] = {
    "send_sync": send_sync,
    "push_concurrent": push_concurrent,
    "retry": retry,
}
SHARED = ("tag_filter", "sql_filter", "push_broadcast", "delay_levels")
SMOKE = [Case("node", name) for name in ("send_sync", "push_concurrent", "tag_filter")]


@pytest.mark.timeout(600)  # the first test builds the client and runs all scenarios
@pytest.mark.parametrize("case", cases([Case("node", n) for n in [*OWN, *SHARED]], SMOKE))
def test_node(case: Case, programs: Programs) -> None:
    prefix, done = programs.of(case, toolchains.node, lambda _: True)
    check = OWN.get(case.scenario) or CHECKS[case.scenario]
    topic = f"{prefix}_{case.scenario}"
    check(Seen(done.of(case.scenario), topic, programs.nameserver))
