"""Process entry of a name server: python -m cluster.local.nameserver_main --listen HOST:PORT."""

from __future__ import annotations

import sys

from cluster.local import service
from cluster.nameserver.server import NameServer


class _Service:
    def __init__(self, server: NameServer) -> None:
        self._server = server

    async def close(self) -> None:
        await self._server.close()

    async def failed(self) -> BaseException:
        return await service.never()


def main() -> int:
    arguments = service.parser("Run one name server.")
    arguments.add_argument("--listen", required=True, metavar="HOST:PORT")
    # In a local cluster the brokers start with the name server: nothing is to be waited for.
    arguments.add_argument("--warm-up", type=float, default=0.0, metavar="SECONDS")
    options = arguments.parse_args()
    host, _, port = options.listen.rpartition(":")

    async def start() -> _Service:
        server = NameServer(host, int(port), warm_up_seconds=options.warm_up)
        await server.start()
        return _Service(server)

    return service.run(start, options.parent_fd)


if __name__ == "__main__":
    sys.exit(main())
