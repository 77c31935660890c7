"""Process entry of a broker node: python -m cluster.local.node_main --config FILE [--format].

--format   make the node's folder first, unless it is one already. Given once in a node's life,
           by whoever creates the cluster: a folder that was emptied later is refused (R6)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cluster.broker.node import BrokerNode
from cluster.local import service
from cluster.local.node_admin import NodeAdmin
from cluster.node_settings import NodeSettings, build_node, read_node
from dledger.storage.identity import FILE_NAME


class NodeService:
    """A broker node and its admin HTTP, started and stopped together."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._node = BrokerNode(settings.broker, settings.raft)
        self._admin = NodeAdmin(self._node, settings.admin)

    def format(self) -> None:
        """Make the folder, unless an identity says that it was made before."""
        folder = Path(self._settings.raft.data_dir)
        if not (folder / FILE_NAME).exists():
            BrokerNode.format(self._settings.raft)

    async def start(self) -> NodeService:
        """Broker first: aiohttp takes a while to import, and elections need not wait for it."""
        await self._node.start()
        try:
            await self._admin.start()
        except BaseException:
            await self._node.close()
            raise
        return self

    async def close(self) -> None:
        await self._admin.close()
        await self._node.close()

    async def failed(self) -> BaseException:
        return await self._node.failed()


def main() -> int:
    arguments = service.parser("Run one broker node.")
    arguments.add_argument("--config", required=True, type=Path, metavar="FILE")
    arguments.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    arguments.add_argument("--format", action="store_true", help="make the folder first")
    options = arguments.parse_args()

    async def start() -> NodeService:
        settings = build_node(read_node(options.config, os.environ, options.set))
        node = NodeService(settings)
        if options.format:
            node.format()
        return await node.start()

    return service.run(start, options.parent_fd)


if __name__ == "__main__":
    sys.exit(main())
