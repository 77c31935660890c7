"""What is appended in one turn of the event loop: few proposals, in the order of the calls."""

from __future__ import annotations

import asyncio

import pytest

from dledger.core.types import Index
from dledger.errors import NotLeader
from dledger.replica.ports import Proposal
from dledger.runtime.owned import Owned
from dledger.runtime.turn import Turn


class Proposed:
    """Takes proposals at indexes 0, 1, 2, …; or refuses them."""

    def __init__(self) -> None:
        self.all: list[Proposal] = []
        self.refuses = False
        self.turn = Turn(self._take, Owned(lambda error: None))

    def _take(self, proposal: Proposal) -> None:
        if self.refuses:
            raise NotLeader(None)
        proposal.first = Index(sum(len(one.bodies) for one in self.all))
        self.all.append(proposal)

    @property
    def bodies(self) -> list[list[bytes]]:
        return [[bytes(body) for body in one.bodies] for one in self.all]

    def decide(self) -> None:
        for one in self.all:
            one.done(one, None)


async def test_at_once_is_behind_what_was_collected_and_needs_no_other_turn() -> None:
    proposed = Proposed()
    first = proposed.turn.append(b"a")
    second = proposed.turn.append_at_once([b"b", b"c"])
    assert proposed.bodies == [[b"a"], [b"b", b"c"]]
    third = proposed.turn.append_many([b"d", b"e"])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert proposed.bodies == [[b"a"], [b"b", b"c"], [b"d", b"e"]], "each once"
    proposed.decide()
    assert [await first, await second, await third] == [0, range(1, 3), range(3, 5)]


async def test_a_refusal_is_the_result_of_what_was_appended_at_once() -> None:
    proposed = Proposed()
    proposed.refuses = True
    with pytest.raises(NotLeader):
        await proposed.turn.append_at_once([b"a"])
    assert proposed.all == []
