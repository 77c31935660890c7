"""Runs this package's server on a thread of its own, so that its users may block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

START_SECONDS_MAX = 10.0


@contextlib.contextmanager
def running(seed: int = 0) -> Iterator[str]:
    """The URL of our server, which runs for as long as the context lasts. Raises OSError."""
    from chaos.toxiproxy.server import ToxicServer  # aiohttp is 0.4 s that other runs need not wait

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="toxiproxy")
    thread.start()
    server = ToxicServer(seed=seed)
    try:
        opening = asyncio.run_coroutine_threadsafe(server.__aenter__(), loop)
        opening.result(START_SECONDS_MAX)
        yield server.url
    finally:
        closing = asyncio.run_coroutine_threadsafe(server.__aexit__(), loop)
        closing.result(START_SECONDS_MAX)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
