"""Begin to listen, or say why not; stop, and lose no connection that was accepted in that moment.

Two programs can bind one address while neither listens; the second `listen` fails (EADDRINUSE).
uvloop (0.23) raises nothing for that: its `create_server` returns a server without a socket, and a
socket that it was given is closed. So servers of this project call `create_server` here only.

`asyncio.Server.close` loses a connection of that moment: the loop accepts it in one turn and makes
its transport in the next, and a server that was closed in between refuses to attach it
(`Server._attach` of CPython). The socket then stays open, without an owner, for as long as the
process lives.

    turn 1   accept, or `stop_listening` begins: nothing more is accepted
    turn 2   what was accepted gets its transport; the server is closed
    turn 3   its protocol hears `connection_made`; the owner closes it with all the others
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

BACKLOG: Final = 100
"""Connections that wait to be accepted: the default of `create_server`."""


async def listen(
    made: Callable[[], asyncio.BaseProtocol], bound: socket.socket, *, backlog: int = BACKLOG
) -> asyncio.Server:
    """Accept connections on a socket that is bound already.

    Raises OSError where another program listens there; the socket is the caller's then, still
    bound, and can be tried again.
    """
    bound.listen(backlog)
    return await asyncio.get_running_loop().create_server(made, sock=bound, backlog=backlog)


async def listen_at(
    made: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, backlog: int = BACKLOG
) -> asyncio.Server:
    """Bind the address, which may have been used a moment ago, and accept connections there.

    Raises OSError where another program has it.
    """
    loop = asyncio.get_running_loop()
    server = await loop.create_server(made, host, port, reuse_address=True, backlog=backlog)
    if any(found is None for found in server.sockets):  # uvloop, see above
        server.close()
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    return server


async def stop_listening(server: asyncio.Server) -> None:
    """Accept no more. Each connection that was accepted before has called its protocol by then.

    Calling it again does nothing.
    """
    loop = server.get_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())  # the loop's own; uvloop connects in turn 1 anyhow
    try:
        await asyncio.sleep(0)
    finally:
        server.close()
    await asyncio.sleep(0)
