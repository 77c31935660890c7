"""Which followers a leader names to name servers (cluster/broker/living.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.living import (
    BEHIND_ENTRIES,
    CAUGHT_UP_ENTRIES,
    SILENT_SECONDS,
    LivingFollowers,
)
from dledger.core.status import PeerStatus
from dledger.core.types import EntryId, Index, NodeId, Term

LAST = 100_000


class Group:
    """A leader's view of its followers; a test changes it and calls `look`."""

    def __init__(self) -> None:
        self.now, self.told = 100.0, 0
        self.matched = {"n1": LAST, "n2": LAST}
        self.heard_at = {"n1": self.now, "n2": self.now}
        log = SimpleNamespace(driver=SimpleNamespace(now=lambda: self.now), status=self._status)
        owned = SimpleNamespace(call_later=lambda seconds, step: None)
        parts: list[Any] = [log, SimpleNamespace(leads=True), owned]
        self.living = LivingFollowers(*parts, changed=self._changed)

    def _changed(self) -> None:
        self.told += 1

    def _status(self) -> Any:
        peers = [
            PeerStatus(
                *(NodeId(name), "stream", Index(0), Index(self.matched[name])),
                *(Index(0), 0, self.heard_at[name]),
            )
            for name in self.matched
        ]
        return SimpleNamespace(peers=peers, last=EntryId(Term(1), Index(LAST)))

    def look(self) -> tuple[str, ...]:
        self.living.look.start()
        return self.living()


def test_a_follower_that_answers_and_has_the_log_is_named() -> None:
    group = Group()
    assert group.look() == ("n1", "n2")
    group.heard_at["n1"] -= SILENT_SECONDS
    assert group.look() == ("n2",)
    assert group.told == 2


@pytest.mark.parametrize("missing", [CAUGHT_UP_ENTRIES + 1, BEHIND_ENTRIES])
def test_a_follower_that_came_back_is_named_when_it_has_caught_up(missing: int) -> None:
    """Else clients send to it while it is busy with all that it missed."""
    group = Group()
    group.matched["n1"] = LAST - missing
    assert group.look() == ("n2",)
    group.matched["n1"] = LAST - CAUGHT_UP_ENTRIES
    assert group.look() == ("n1", "n2")


def test_a_busy_leader_goes_on_naming_a_follower_to_which_much_is_on_its_way() -> None:
    group = Group()
    group.look()
    group.matched["n1"] = LAST - BEHIND_ENTRIES
    assert group.look() == ("n1", "n2")
    group.matched["n1"] -= 1
    assert group.look() == ("n2",)
