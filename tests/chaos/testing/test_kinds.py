"""Everything that runs of machines count does happen: a kind that stops happening fails here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields

from chaos.sim.silence import BLOWS
from chaos.testing.cluster import Report, run_subject
from chaos.testing.faults import FAULTS
from chaos.testing.objects import OBJECTS

#: Of a report's fields, those that count no event.
NO_EVENTS = {"seed", "seconds", "faults", "silent"}
#: Which seeds were seen to have the rare ones; others are tried when a change of the code gives
#: these another course.
SEEN = {
    "cut": ("lock", 9),
    "restored": ("lock", 5),
    "ended_behind": ("lock", 6),
    "overtaken": ("lock", 39),
    "led_behind": ("lock", 61),
    "led": ("kv", 103),
    "recalled": ("kv", 52),
}
SEEDS_MAX = 400


def events_of(report: Report) -> set[str]:
    """The kinds that this run has had."""
    counted = {field.name for field in fields(Report)} - NO_EVENTS
    return {
        *(name for name in counted if getattr(report, name)),
        *(f"fault {kind}" for kind in report.faults),
        *(f"silent {kind}" for kind in report.silent),
    }


def seeds() -> Iterator[tuple[str, int]]:
    yield from SEEN.values()
    yield from itertools.product(("kv", "lock"), range(SEEDS_MAX // 2))


def test_every_kind_of_event_is_met_by_some_seed() -> None:
    lacking = {
        *({field.name for field in fields(Report)} - NO_EVENTS),
        *(f"fault {kind}" for kind in FAULTS),
        *(f"silent {kind}" for kind in BLOWS),
    }
    assert lacking > SEEN.keys()
    for name, seed in seeds():
        lacking -= events_of(run_subject(OBJECTS[name], seed))
        if not lacking:
            break
    assert not lacking, f"{SEEDS_MAX} seeds have none of these"
