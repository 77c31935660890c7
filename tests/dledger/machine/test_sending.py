"""One command at a time is sent in its call; of many, all go together when the turn is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from commitlog.files.system import Buffer
from dledger import DledgerError, Entry, RaftConfig, ReplicatedNode, ReplicatedStateMachine
from dledger.machine.entries import Kind, commands_of, opened
from dledger.replica.ports import Proposal


class Echo(ReplicatedStateMachine[int, int]):
    """Its result is the command."""

    def apply(self, entry: Entry[int]) -> int:
        return entry.command


def alone(folder: Path) -> ReplicatedNode[int, int]:
    peers = {"n0": ("127.0.0.1", 0)}
    config = RaftConfig("n0", peers, folder / "n0", cluster_id="sending")
    return ReplicatedNode(config, Echo(), create=True)


def commands_in(body: Buffer) -> int:
    ((*_, kind, _, _, _, _),) = opened([(0, 1, body)])
    return len(commands_of(body)) if kind == Kind.COMMANDS else 1


class Proposed:
    """Commands of the proposals that a node has made since it was last asked."""

    def __init__(self, node: ReplicatedNode[int, int]) -> None:
        self._sizes: list[int] = []
        replica = node.log.driver.replica
        propose = replica.propose

        def noted(proposal: Proposal, now: float) -> None:
            self._sizes.append(sum(map(commands_in, proposal.bodies)))
            propose(proposal, now)

        replica.propose = noted

    def take(self) -> list[int]:
        sizes = list(self._sizes)
        self._sizes.clear()
        return sizes


async def test_the_second_of_single_commands_is_sent_before_its_call_returns(
    tmp_path: Path,
) -> None:
    async with alone(tmp_path) as node:
        assert await node.propose(1) == 1
        assert await node.propose(2) == 2
        proposed = Proposed(node)
        answer = node.propose(3)
        assert proposed.take() == [1], "no turn of the loop has passed"
        later = [node.propose(number) for number in (4, 5, 6)]
        assert proposed.take() == [], "others wait: they go together"
        assert await asyncio.gather(answer, *later) == [3, 4, 5, 6]
        assert proposed.take() == [3]


async def test_no_command_of_a_burst_goes_ahead(tmp_path: Path) -> None:
    """Its sync would be under way when the others come, and they would wait for two of them."""
    async with alone(tmp_path) as node:
        assert await node.propose(1) == 1
        proposed = Proposed(node)
        for _ in range(3):
            await asyncio.gather(*(node.propose(number) for number in range(20)))
        sizes = proposed.take()
        assert sizes[-2:] == [20, 20], f"after the first burst nothing goes alone: {sizes}"


async def test_a_command_from_inside_an_event_of_the_log_waits_for_its_end(
    tmp_path: Path,
) -> None:
    """A function that is told of members may propose: it is called while the log is."""
    answers: list[asyncio.Future[int]] = []
    async with alone(tmp_path) as node:
        assert await node.propose(1) == 1
        assert await node.propose(2) == 2
        node.member_changes.subscribe(lambda _members: answers.append(node.propose(3)))
        proposed, replica = Proposed(node), node.log.driver.replica
        replica.in_event = True
        try:
            node.member_changes.tell(())
            assert proposed.take() == []
        finally:
            replica.in_event = False
        assert [await answer for answer in answers] == [3]
        assert proposed.take() == [1]


async def test_a_command_after_the_log_has_failed_ends_with_its_error(tmp_path: Path) -> None:
    async with alone(tmp_path) as node:
        await node.propose(1)
        await node.propose(2)
        node.log.driver.replica.fail("the test says so")
        error: BaseException | None = None
        try:
            await node.propose(3)
        except DledgerError as raised:
            error = raised
        assert error is not None
        assert "the test says so" in f"{error} {error.__cause__}"
