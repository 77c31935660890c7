"""Marks of a feature level: a node stops at one above its own, and passes nothing over."""

from __future__ import annotations

import json

import pytest

from cluster.core.apply import AppliedState
from cluster.core.feature_level import LEVEL, UpgradeNeeded
from cluster.core.internal_topics import AccountsChanged, LevelRaised, StateChange, TopicsChanged
from cluster.core.live_settings import SettingsChanged
from cluster.core.topics import TopicConfig
from dledger.core.types import Index

from .test_apply import change, entries


def applied(known: int, *changes: StateChange) -> AppliedState:
    """The state of a log with these changes, by a node that understands kinds up to `known`."""
    state = AppliedState(())
    state.level.known = known
    for index, what in enumerate(changes):
        state.apply(entries([change(what)], index), Index(index))
    return state


def test_a_log_without_a_mark_is_of_the_first_level() -> None:
    state = applied(LEVEL, TopicsChanged(put=(TopicConfig("T"),)))
    assert state.level.value == 0


def test_an_older_node_stops_at_a_mark_and_applies_nothing_behind_it() -> None:
    before = TopicsChanged(put=(TopicConfig("before"),))
    behind = TopicsChanged(put=(TopicConfig("behind"),))
    log = (before, LevelRaised(7), behind)
    newer = applied(7, *log)
    assert newer.level.value == 7
    assert newer.topics.get("behind") is not None
    with pytest.raises(UpgradeNeeded) as told:
        applied(6, *log)
    for part in ("feature level 7", "understands 6", "upgrade this node"):
        assert part in str(told.value)


def test_a_lower_mark_takes_nothing_back() -> None:
    assert applied(7, LevelRaised(7), LevelRaised(3)).level.value == 7


def test_a_checkpoint_keeps_the_level_and_an_older_node_refuses_it() -> None:
    data = applied(7, LevelRaised(7)).to_checkpoint()
    again = AppliedState(())
    again.level.known = 7
    again.restore(data, lambda *_: True)
    assert again.level.value == 7
    older = AppliedState(())
    older.level.known = 6
    with pytest.raises(UpgradeNeeded):
        older.restore(data, lambda *_: True)


def test_a_checkpoint_of_an_earlier_version_is_of_the_first_level() -> None:
    value = json.loads(applied(0, LevelRaised(0)).to_checkpoint())
    del value["level"]
    state = AppliedState(())
    state.restore(json.dumps(value).encode(), lambda *_: True)
    assert state.level.value == 0


def test_records_below_their_level_are_passed_over() -> None:
    """A node of the version before does so, and must have the same state."""
    row = {"accessKey": "the-chief", "secretKey": "drawn-for-a-test", "admin": True}
    accounts = AccountsChanged((row,))
    limited = AccountsChanged(({**row, "maxMessages": 7},))
    settings = SettingsChanged({"reserved_hours": "48"})
    below = applied(2, accounts, LevelRaised(1), limited, settings)
    assert (len(below.accounts), below.settings.values) == (0, {})
    state = applied(2, LevelRaised(1), accounts, LevelRaised(2), limited, settings)
    assert state.accounts.rows() == [{**row, "maxMessages": 7}]
    two = AccountsChanged(({**row, "previousSecretKey": "drawn-before-that"},))
    assert applied(3, LevelRaised(2), accounts, two).accounts.rows() == [row]
    both = applied(3, LevelRaised(3), accounts, two).accounts.accounts["the-chief"].secrets()
    assert both == ("drawn-for-a-test", "drawn-before-that")
    assert state.settings.values == {"reserved_hours": "48"}
