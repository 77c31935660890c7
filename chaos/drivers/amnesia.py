"""`nats-amnesia-*`: the one-node recipe that broke NATS JetStream 2.12.1, exactly.

Source: docs/spec/chaos.md 1.3.

    hide A ─► B and C acknowledge for a while ─► C loses its power and forgets ─► hide B
           ─► C comes up, A is seen again: they are a majority ─► a while later B is back

So that C has something to forget its syncs are held just before: a cut between two syncs, as it may
come. What it forgets then was acknowledged by nobody who counted it; a store that acknowledges
before the sync loses it. "A while" is 30 s in the recipe: `$DLEDGER_RECIPE_SECONDS`, 2 s without.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import psutil

from chaos.drivers import power
from chaos.drivers.stage import Stage, recipe_seconds
from chaos.drivers.steps import LEADER_SECONDS_MAX, committed, cut_off, on, paused, roles


async def nats_amnesia_pause(stage: Stage) -> str:
    """As it broke NATS JetStream 2.12.1: with stopped processes."""
    return await _amnesia(stage, pause=True)


async def nats_amnesia_partition(stage: Stage) -> str:
    """The same with nodes cut off."""
    return await _amnesia(stage, pause=False)


async def _amnesia(stage: Stage, *, pause: bool) -> str:
    """Returns "" unless A missed acknowledged entries, C forgot some, and B was hidden
    meanwhile.
    """
    leader, (hidden, forgetful, *_) = await roles(stage)
    seconds = recipe_seconds()
    with contextlib.ExitStack() as of_hidden, contextlib.ExitStack() as of_leader:
        a = of_hidden.enter_context(_hidden(stage, hidden, pause=pause))
        with stage.majority_whole():
            before = await committed(stage)
            await asyncio.sleep(seconds)
            missed = await committed(stage) - before
        await power.hold_syncs(on(stage, forgetful, 0.0))
        (cut,) = await power.cut(on(stage, forgetful, 0.0))
        b = of_leader.enter_context(_hidden(stage, leader, pause=pause))
        await stage.start(forgetful)
        a_was = a()
        of_hidden.close()
        if not pause:  # the links between A and B were healed, too
            b = of_leader.enter_context(_hidden(stage, leader, pause=pause))
        successor = await stage.arena.leader(other_than=leader, seconds_max=LEADER_SECONDS_MAX)
        with stage.majority_whole():
            middle = await _committed_by(stage, successor)
            await asyncio.sleep(seconds)
            more = await _committed_by(stage, successor) - middle
        b_was = b()
    if missed <= 0 or more <= 0 or not cut.lost_records or not a_was or not b_was:
        return ""
    return (
        f"{hidden} missed {missed} entries ({a_was}); {cut}; {leader} hidden ({b_was}), "
        f"{successor} led and committed {more} without it; {seconds:g} s each"
    )


async def _committed_by(stage: Stage, node: str) -> int:
    status = (await stage.arena.statuses()).get(node)
    return int(status["committed_index"]) if status else -1


@contextlib.contextmanager
def _hidden(stage: Stage, node: str, *, pause: bool) -> Iterator[Callable[[], str]]:
    """Hides the node from all others. Gives a function that describes the observed effect, "" if
    there was none."""
    if not pause:
        with cut_off(stage, node) as seen:
            yield lambda: seen.tell("dropped bytes")
        return
    with paused(stage, node):
        yield lambda: _is_stopped(stage.process(node))


def _is_stopped(process: psutil.Process | None) -> str:
    stopped = process is not None and process.status() == psutil.STATUS_STOPPED
    return "stopped" if stopped else ""
