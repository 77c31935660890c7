"""Process entry of a node of the arena: the shipping node, with a clock and failpoints of ours.

    python -m chaos.live.node_main --config FILE      as cluster.local.node_main

$DLEDGER_CHAOS_FOLDER names the folder of node_hooks.py's files. A release starts the other module,
in which none of this exists.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from chaos.live import namespaces, node_hooks, node_trace, small_reads
from chaos.live.failpoints import Failpoint, hold_syncs
from cluster.broker.components import BrokerComponents
from cluster.broker.config import BrokerConfig
from cluster.broker.node import BrokerNode
from cluster.local.node_main import main
from dledger.config import RaftConfig
from dledger.core.types import NodeId
from dledger.errors import DledgerError
from dledger.replica.ports import Proposal
from dledger.runtime.driver import Driver
from dledger.runtime.owned import Guard, Owned

Tell = Callable[[str], None]


class HookedNode(BrokerNode):
    """A broker node that obeys its control file and traces its own state."""

    def __init__(self, config: BrokerConfig, raft: RaftConfig) -> None:
        self._skewed = node_hooks.SkewedClock()
        super().__init__(config, raft, clock=self._skewed)
        folder = os.environ.get(node_hooks.FOLDER_VARIABLE)
        self._folder = Path(folder) if folder else None
        self._wishes = node_hooks.Wishes(self._folder) if self._folder else None
        self._watching: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._trace: node_trace.NodeTrace | None = None

    async def start(self) -> None:
        """Obeys a request that waits already, begins to watch for others, then starts the node."""
        if self._wishes is not None:
            self._look(self._wishes)  # a failpoint of the start itself
            self._watching = asyncio.ensure_future(self._watch(self._wishes))
        await super().start()

    async def close(self) -> None:
        """Cancels the watch and a sweep under way, then closes the node."""
        if self._watching is not None:
            self._watching.cancel()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await super().close()

    def _open(self) -> tuple[BrokerComponents, Driver]:
        parts, driver = super()._open()
        if self._trace is not None:  # opened again on the state that a leader sent
            self._trace.close()
        if self._folder is not None:
            self._trace = node_trace.follow(driver, self._folder / node_trace.TRACE)
        return parts, driver

    async def _watch(self, wishes: node_hooks.Wishes) -> None:
        while True:  # until the node is closed
            await asyncio.sleep(node_hooks.LOOK_SECONDS)
            self._look(wishes)

    def _look(self, wishes: node_hooks.Wishes) -> None:
        asked = wishes.look()
        if asked is None:
            return
        tell = partial(wishes.tell, asked["number"])
        if "sweep" in asked:
            self._sweeping = asyncio.ensure_future(self._sweep(tell))
        elif "transfer" in asked:
            self._transfer(asked["transfer"], tell)
        else:
            tell(self._done(asked))

    def _done(self, asked: dict[str, Any]) -> str:
        """Wishes that take effect at once: all but sweeps and transfers."""
        assert self._folder is not None
        seen = []
        if clock := asked.get("clock"):
            before = self._skewed.now()
            self._skewed.skew(**clock)
            seen.append(f"clock jumped {self._skewed.now() - before:.3f} s, runs {clock}")
        if failpoint := asked.get("failpoint"):
            Failpoint(failpoint["name"], failpoint["after"], self._folder).arm()
            if self._driver is not None:
                self._driver.send = self._driver.transport.send
            seen.append(f"armed {failpoint['name']}")
        if seconds := asked.get("hold_syncs"):
            hold_syncs(seconds)
            seen.append(f"holds its syncs for {seconds} s")
        if asked.get("mistake"):
            _mistake_once(self.parts.owned)
            seen.append("makes a mistake in the next request")
        if (record := asked.get("record")) and self._driver is not None:
            self.parts.log.propose(Proposal([str(record).encode()], lambda *_: None))
            seen.append("appends an entry of an unknown kind")
        if asked.get("scrub") and self._driver is not None:
            self._driver.scrub()
            seen.append("looks for damage")
        return ", ".join(seen)

    async def _sweep(self, tell: Tell) -> None:
        """Runs one round of housekeeping: saves the state, then deletes the log files that
        retention allows."""
        housekeeping = self.parts.housekeeping
        await housekeeping.checkpoint()
        housekeeping.retention.look()
        tell("swept")

    def _transfer(self, to: str, tell: Tell) -> None:
        if self._driver is None:
            return  # asked of the process before this one

        def done(error: DledgerError | None) -> None:
            tell("" if error else "leadership was handed over")

        try:
            self.parts.log.transfer(NodeId(to) if to else None, done)
        except DledgerError as error:
            done(error)


def _mistake_once(owned: Owned) -> None:
    """Has the next step of a client's request raise, as a mistake in our code would."""
    whole = owned.on_behalf

    def wrong(guard: Guard, step: Callable[[], object]) -> None:
        setattr(owned, "on_behalf", whole)  # noqa: B010  # a method, for one call
        raise RuntimeError("fault injection: a mistake in one request")

    setattr(owned, "on_behalf", wrong)  # noqa: B010


if __name__ == "__main__":
    namespaces.enter()
    if node_hooks.FOLDER_VARIABLE in os.environ:
        small_reads.write_down(Path(os.environ[node_hooks.FOLDER_VARIABLE]))
    sys.exit(main(HookedNode))
