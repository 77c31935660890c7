"""Process entry of a broker node: python -m cluster.local.node_main --config FILE [--format].

--config   once for each replica that this node holds: one group, one file
--format   make the node's folder first, unless it is one already. Given once in a node's life,
           by the creator of the cluster: a folder that was emptied later is refused (R6)
--join     the same for a node that a running group will take in: dledger member add, replace
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster.broker.config import BrokerConfig
from cluster.broker.node import BrokerNode
from cluster.local import service
from cluster.local.node_admin import NodeAdmin
from cluster.local.node_log import use_log
from cluster.settings.node import NodeSettings, build_node, read_node
from dledger.config import RaftConfig
from dledger.durable.identity import FILE_NAME

_log = logging.getLogger(__name__)
MakeNode = Callable[[BrokerConfig, RaftConfig], BrokerNode]

PLAIN_PEERS = (
    "%s and %s send each other the log without TLS, so the network between them can read it; give "
    "the nodes certificates (dledger tls init), then raft.tls_mode=permissive, then enforcing"
)


class ReplicaService:
    """One replica and its admin HTTP, started and stopped together."""

    def __init__(self, settings: NodeSettings, make_node: MakeNode = BrokerNode) -> None:
        self._settings = settings
        self.log = settings.log
        self.node = make_node(settings.broker, settings.raft)
        self._admin = NodeAdmin(self.node, settings.admin, settings.shown)

    def format(self, *, joins: bool = False) -> None:
        """Make the folder, unless an identity says that it was made before."""
        folder = Path(self._settings.raft.data_dir)
        if not (folder / FILE_NAME).exists():
            BrokerNode.format(self._settings.raft, joins=joins)

    async def start(self) -> None:
        """Broker first: aiohttp takes a while to import, and elections need not wait for it."""
        if plain := self._settings.raft.plain_peers():
            _log.warning(PLAIN_PEERS, self._settings.raft.node_id, ", ".join(plain))
        await self.node.start()
        try:
            await self._admin.start()
        except BaseException:
            await self.node.close()
            raise

    async def close(self) -> None:
        """Closes the admin HTTP first, then the node."""
        await self._admin.close()
        await self.node.close()

    async def failed(self) -> BaseException:
        """Returns the error once the replica cannot go on; waits for ever while it works."""
        return await self.node.failed()


class NodeService:
    """All replicas of one process. When one fails the process ends: its disk is theirs, too."""

    def __init__(self, replicas: list[ReplicaService]) -> None:
        self._replicas = replicas
        self._started: list[ReplicaService] = []

    async def start(self) -> NodeService:
        """Starts the replicas one by one; if one raises, closes those before it, then raises."""
        try:
            for replica in self._replicas:
                await replica.start()
                self._started.append(replica)
        except BaseException:
            await self.close()
            raise
        # Very many queues are a million objects that stay: never to be looked through again.
        gc.freeze()
        return self

    async def close(self) -> None:
        """Closes all replicas that were started, at the same time."""
        await asyncio.gather(*(replica.close() for replica in reversed(self._started)))

    async def failed(self) -> BaseException:
        """Waits until the first of the replicas cannot go on; returns its error."""
        waiting = [asyncio.ensure_future(replica.failed()) for replica in self._replicas]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        return next(iter(done)).result()


async def serve(nodes: Iterable[NodeSettings], make_node: MakeNode = BrokerNode) -> NodeService:
    """Start the replicas of one process. Raises the errors of a node's start."""
    return await start_all([ReplicaService(node, make_node) for node in nodes])


async def start_all(replicas: list[ReplicaService]) -> NodeService:
    """The same of replicas that were made; the first one's settings say where the log goes."""
    use_log(replicas[0].log)
    return await NodeService(replicas).start()


def main(make_node: MakeNode = BrokerNode) -> int:
    """Run the process; `make_node` makes a node with other ports than the machine's."""
    arguments = service.parser("Run one broker node.")
    arguments.add_argument("--config", required=True, action="append", type=Path, metavar="FILE")
    arguments.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments.add_argument("--format", action="store_true", help="make the folder first")
    arguments.add_argument("--join", action="store_true", help="the same, of a group that runs")
    options = arguments.parse_args()

    async def start() -> NodeService:
        nodes = [build_node(read_node(file, os.environ, options.set)) for file in options.config]
        replicas = [ReplicaService(node, make_node) for node in nodes]
        use_log(nodes[0].log)
        for replica in replicas:
            if options.format or options.join:
                replica.format(joins=options.join)
        return await NodeService(replicas).start()

    return service.run(start, options.parent_fd)


if __name__ == "__main__":
    sys.exit(main())
