"""Steps that courses of several faults share: finding the roles, hiding nodes, making one stand for
election."""

from __future__ import annotations

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from chaos.drivers import links
from chaos.drivers.hooks import ask
from chaos.drivers.stage import Fault, Stage
from chaos.live import node_hooks
from cluster.local import processes

LOAD_SECONDS = 2.0  # acknowledged on a majority meanwhile
LEADER_SECONDS_MAX = 25.0  # a node starts meanwhile, on a machine that may be busy
HAND_OVER_SECONDS = 1.0


def keeps_a_majority(course: Fault) -> Fault:
    """A course in which never more is missing than the cluster tolerates: it is no blackout."""

    @functools.wraps(course)
    async def kept(stage: Stage) -> str:
        with stage.majority_whole(until_back=True):
            return await course(stage)

    return kept


def on(stage: Stage, node: str, seconds: float) -> Stage:
    """A copy of the stage for one node and so many seconds; random and notes are shared."""
    return replace(stage, nodes=[node], seconds=seconds)


async def roles(stage: Stage) -> tuple[str, list[str]]:
    """The leader and its followers, in an order drawn from the seed."""
    leader = await stage.arena.leader()
    followers = [node for node in stage.nodes if node != leader]
    stage.random.shuffle(followers)
    return leader, followers


async def all_back(stage: Stage) -> None:
    """Starts targets that ended or failed, one by one, until each serves. Raises NotUpAgain."""
    for node in stage.nodes:
        await stage.up_again(node)


async def committed(stage: Stage) -> int:
    """The highest index that any node knows to be committed."""
    found = await stage.arena.statuses()
    return max((int(s["committed_index"]) for s in found.values() if s), default=-1)


async def elect(stage: Stage, voter: str, voted: Callable[[], bool]) -> str:
    """Asks for hand-overs until `voter` was asked for its vote. Returns the candidate, "" if there
    was none in time.

    One try is not enough: who leads may have stepped down meanwhile, and nobody is handed the lead
    who is behind, as one that was hidden a moment ago is.
    """
    end = time.monotonic() + LEADER_SECONDS_MAX
    while time.monotonic() < end:
        leader = await stage.arena.leader(seconds_max=LEADER_SECONDS_MAX)
        candidate = stage.random.choice([n for n in stage.nodes if n not in (voter, leader)])
        await hand_over(stage, leader, candidate)
        if await stage.until(voted, HAND_OVER_SECONDS):
            return candidate
    return ""


async def hand_over(stage: Stage, leader: str, to: str) -> None:
    """Asks the leader to hand over to `to`; waits for its answer, at most 5 s, and ignores it."""
    await ask(stage, leader, transfer=to)
    node_hooks.forget(stage.folder(leader))


@contextlib.contextmanager
def paused(stage: Stage, node: str) -> Iterator[None]:
    """Stops the node's process by SIGSTOP within the block."""
    processes.send(stage.folder(node), signal.SIGSTOP)
    try:
        yield
    finally:
        processes.send(stage.folder(node), signal.SIGCONT)


@contextlib.contextmanager
def cut_off(stage: Stage, node: str) -> Iterator[links.Seen]:
    """Drops all bytes to and from the node within the block; yields the effects on its links."""
    chosen = list(stage.arena.mesh.of(node))
    with links.healed(chosen) as seen:
        for link in chosen:
            link.drop()
        yield seen
