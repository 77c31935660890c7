"""The official Java client, three versions, JSON and binary headers: every scenario, checked."""

from __future__ import annotations

import pytest

from .conftest import Case, Programs, cases
from .harness import toolchains
from .harness.checks import CHECKS, Seen

VERSIONS = ("4.9.8", "5.3.3", "5.5.0")
SMOKE_VERSION = "5.3.3"
SMOKE = (
    *("send_sync", "send_batch", "push_concurrent", "push_orderly"),
    *("lite_pull", "tag_filter", "query"),
)
# Other clusters: test_access.py.
ELSEWHERE = ("tls", "acl")
SCENARIOS = [name for name in CHECKS if name not in ELSEWHERE]
# Messages at any time and pops came with 5.0, taking messages back with 5.3.2.
SINCE_5 = ("timer", "recall", "pop", "pop_calls")
# The binary header says the same fields in other bytes: what carries every kind of field.
BINARY = (
    *("send_sync", "send_async", "send_oneway", "send_batch", "auto_create", "push_concurrent"),
    *("push_orderly", "push_broadcast", "lite_pull", "tag_filter", "query", "transaction"),
    *("request_reply", "delay_levels"),
)

ALL = [
    *[
        Case("java", name, version)
        for version in VERSIONS
        for name in SCENARIOS
        if version >= "5" or name not in SINCE_5
    ],
    *[Case("java", name, SMOKE_VERSION, "binary") for name in BINARY],
]


def command(case: Case) -> list[str]:
    options = ["-Drocketmq.serialize.type=ROCKETMQ"] if case.mode == "binary" else []
    return [*toolchains.java(case.version), *options, "interop.Main"]


@pytest.mark.timeout(900)  # the first test of a version builds it and runs all its scenarios
@pytest.mark.parametrize("case", cases(ALL, [Case("java", n, SMOKE_VERSION) for n in SMOKE]))
def test_java(case: Case, programs: Programs) -> None:
    prefix, done = programs.of(case, lambda: command(case), lambda name: name != "auto_create")
    facts = done.of(case.scenario)
    CHECKS[case.scenario](Seen(facts, f"{prefix}_{case.scenario}", programs.nameserver))
