"""Deadlines that a host keeps for its quiet groups."""

from __future__ import annotations

import pytest

from dledger.runtime.alarms import Alarms
from dledger.runtime.owned import Owned


class Group:
    """Counts its calls; `mistake` is raised by each."""

    def __init__(self, mistake: Exception | None = None) -> None:
        self.calls, self.mistake = 0, mistake
        self.died: list[BaseException] = []
        self.owned = Owned(self.died.append)

    def call(self) -> None:
        self.calls += 1
        if self.mistake is not None:
            raise self.mistake


def test_a_call_is_made_once_when_it_is_due() -> None:
    alarms, group = Alarms(0.5), Group()
    assert alarms.take(60.0, 0.0, group.owned, group.call)
    alarms.ring(59.9)
    assert group.calls == 0
    alarms.ring(60.0)
    alarms.ring(60.5)
    assert group.calls == 1
    assert len(alarms) == 0


def test_a_later_take_replaces_the_first_and_cancel_ends_it() -> None:
    alarms, group = Alarms(0.5), Group()
    alarms.take(60.0, 0.0, group.owned, group.call)
    alarms.take(90.0, 0.0, group.owned, group.call)
    alarms.ring(60.0)
    assert group.calls == 0
    alarms.cancel(group.call)
    alarms.ring(90.0)
    assert group.calls == 0


@pytest.mark.parametrize("at", [0.9, float("inf")])
def test_what_is_due_soon_or_never_is_not_taken(at: float) -> None:
    alarms, group = Alarms(0.5), Group()
    assert not alarms.take(at, 0.0, group.owned, group.call)
    assert len(alarms) == 0


def test_a_mistake_of_one_group_ends_it_and_no_other() -> None:
    alarms, bad, good = Alarms(0.5), Group(RuntimeError("a mistake")), Group()
    for group in (bad, good):
        alarms.take(60.0, 0.0, group.owned, group.call)
    alarms.ring(60.0)
    assert [str(error) for error in bad.died] == ["a mistake"]
    assert good.calls == 1
    assert good.died == []


def test_a_call_may_end_another_one_that_is_due() -> None:
    alarms, other = Alarms(0.5), Group()
    owned = Owned(lambda error: None)
    alarms.take(60.0, 0.0, owned, lambda: alarms.cancel(other.call))
    alarms.take(60.0, 0.0, other.owned, other.call)
    alarms.ring(60.0)
    assert other.calls == 0
