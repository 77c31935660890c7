"""Every table of the broker's state: a checkpoint and the rest of the log give what the log gives.

Histories have every kind of record (histories.py); fields are found by looking (contents.py).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, get_args

import pytest

from cluster.core.apply import AppliedState
from cluster.core.internal_topics import StateChange
from cluster.core.pop.records import PopRecord
from cluster.core.topics import built_in_topics
from commitlog.dispatch.accel_columns import read_stretches
from dledger.core.types import Index
from dledger.producers.table import ProducerTable
from dledger.testing.memory import MemoryLog

from .contents import DIFFER, UNORDERED, contents, difference, differs, values_of
from .histories import History

COUNT = 1_500
SEEDS = range(12)
_SETTING = "a setting of the broker"
#: Fields that no record changes.
CONSTANT = {
    **dict.fromkeys(
        (
            "AppliedState.special_topics", "CheckRule.age_ms_max", "CheckRule.checks_max",
            "CheckRule.interval_ms", "CheckRule.timeout_ms", "DelayLevels.delays_ms",
            "DelayedTable.levels", "Departed._count_max", "HalfTable.rule",
            "ProducerTable._idle_ms_max", "ProducerTable._producers_max",
            "ProducerTable._streams_max", "TopicTable._built_in",
        ),
        _SETTING,
    ),
    **dict.fromkeys(
        ("AppliedState.level", "FeatureLevel.known", "FeatureLevel.value"),
        "0 until there is a kind of record of level 1 (R28); other levels: test_feature_level.py",
    ),
    "AppliedState.complained": "who is told of records that are passed over",
    "DataVersion.state_version": "of an imported store; ours stays 0",
    "OrderTaken.logged_from": "not kept in a row",
    "OrderTaken.next_offset": "not kept in a row",
    "ProducerTable._overlay": "only a leader fills it",
    "ProducerTable.forgot": "who is told of producers that are forgotten",
}  # fmt: skip


@functools.cache
def history_of(seed: int) -> History:
    """Made once; states only read its log."""
    return History(seed, COUNT)


def fresh(producers_max: int = 10_000) -> AppliedState:
    return AppliedState(built_in_topics("C", "B"), ProducerTable(producers_max=producers_max))


def pieces(last: int, random: Random) -> list[int]:
    """Where pieces end in which a log is applied, the last one at `last`."""
    ends: list[int] = []
    while not ends or ends[-1] < last:
        ends.append(min((ends[-1] if ends else -1) + random.randint(1, 200), last))
    return ends


def replay(state: AppliedState, log: MemoryLog, ends: Iterable[int]) -> None:
    """Apply pieces that the state has not seen yet, small ones entry by entry."""
    for end in ends:
        if end <= state.applied:
            continue
        first = Index(state.applied + 1)
        part = log.read_range(first, Index(end), 1 << 30)
        data = b"".join(part.parts)
        stretches = read_stretches(data, part.position, state.special_topics)
        state.apply(data, first, stretches if end - first > 50 else ())
        state.position = part.position + part.size


@pytest.mark.parametrize(
    ("seed", "producers_max"),
    [
        *((seed, 10_000) for seed in SEEDS),
        # Differs in one table only, whose producers are pushed out: a few in the quick suite.
        *(pytest.param(seed, 2, marks=() if seed < 4 else pytest.mark.long) for seed in SEEDS),
    ],
)
def test_a_checkpoint_and_the_rest_give_what_the_whole_log_gives(
    seed: int, producers_max: int
) -> None:
    history, random = history_of(seed), Random(seed)
    ends = pieces(history.log.last.index, random)
    whole, before = fresh(producers_max), fresh(producers_max)
    replay(whole, history.log, ends)
    expected = contents(whole)
    for cut in (*sorted(random.sample(range(len(ends)), 3)), len(ends)):  # the end has everything
        replay(before, history.log, ends[:cut])  # it goes on from the cut before
        after = fresh(producers_max)
        if cut:
            after.restore(before.to_checkpoint(), lambda *_: True)
        assert difference(before, after) == []
        assert after.to_checkpoint() == before.to_checkpoint()
        replay(after, history.log, ends)
        assert after.to_checkpoint() == whole.to_checkpoint()
        assert differs(expected, contents(after)) == []
    assert differs(expected, contents(before)) == []  # a checkpoint leaves its state as it was


def applied(seed: int, producers_max: int = 10_000) -> tuple[History, AppliedState]:
    history, state = history_of(seed), fresh(producers_max)
    replay(state, history.log, pieces(history.log.last.index, Random(seed)))
    return history, state


def test_the_histories_have_every_kind_of_record_and_change_every_field() -> None:
    """A kind, a table or a field that is added is drawn, too, or this fails."""
    kinds: set[object] = set()
    seen = values_of(contents(fresh()))
    for seed in SEEDS:
        history, state = applied(seed, producers_max=10_000 if seed else 2)  # some are pushed out
        kinds |= history.kinds
        for name, values in values_of(contents(state)).items():
            seen.setdefault(name, set()).update(values)
    assert kinds >= {*get_args(StateChange), *get_args(PopRecord)}
    constant = {name for name, values in seen.items() if len(values) == 1} - CONSTANT.keys()
    assert not constant


def test_what_may_differ_is_there() -> None:
    """No reason is kept for a field that has gone."""
    there = set(values_of(contents(applied(0)[1], but=())))
    assert there >= DIFFER.keys() | UNORDERED


def parts_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of what a checkpoint has names for; not what tables hold under keys of their own."""
    if isinstance(value, dict) and path not in {("ends",), ("groups", "forbidden")}:
        for key, inner in value.items():
            yield (*path, key)
            yield from parts_of(inner, (*path, key))


def is_noticed(state: AppliedState, path: tuple[str, ...]) -> bool:
    """Is a checkpoint refused, or gives it another state, when this part of it is empty?"""
    whole = inner = json.loads(state.to_checkpoint())
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = type(inner[path[-1]])()
    after = fresh()
    try:
        after.restore(json.dumps(whole).encode(), lambda *_: True)
    except (ValueError, KeyError, TypeError):
        return True
    return bool(difference(state, after))


def test_whatever_a_checkpoint_forgets_is_noticed() -> None:
    states = [applied(seed)[1] for seed in range(3)] + [applied(0, producers_max=2)[1]]
    paths = set(parts_of(json.loads(states[0].to_checkpoint())))
    paths -= {(table, "version", "stateVersion") for table in ("topics", "groups")}  # CONSTANT
    unnoticed = [path for path in paths if not any(is_noticed(state, path) for state in states)]
    assert not unnoticed
