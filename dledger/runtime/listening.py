"""Stop to listen, and lose no connection that was accepted in the same moment.

`asyncio.Server.close` loses it: the loop accepts a connection in one turn and makes its transport
in the next, and a server that was closed in between refuses to attach it (`Server._attach` of
CPython). The socket then stays open, without an owner, for as long as the process lives.

    turn 1   accept, or `stop_listening` begins: nothing more is accepted
    turn 2   what was accepted gets its transport; the server is closed
    turn 3   its protocol hears `connection_made`; the owner closes it with all the others
"""

from __future__ import annotations

import asyncio


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
