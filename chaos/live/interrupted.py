"""Ctrl-C and SIGTERM in a live run: the first one ends it, and none ends its clean-up.

    SIGINT or SIGTERM ─► the run is cancelled ─► nodes stop, disks are unmounted, networks go
    any later one     ─► nothing: what it would interrupt is the clean-up

`asyncio.run` alone lets a second Ctrl-C through wherever the clean-up is, and a mounted disk stays.
What hears the signals only tells the event loop, so that they break into no call that it waits for:
a disk is mounted and known, or it is not. Tools that a run starts are in sessions of their own, as
a terminal sends Ctrl-C to everybody in its foreground.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLEANING_UP = "cleaning up, a few seconds: nodes are stopped, their disks and networks taken away"


async def in_thread(function: Callable[[], Result]) -> Result:
    """`asyncio.to_thread`; when it is cancelled, the thread has ended before that is told.

    For what makes things: nobody could take away what a thread is still making.
    """
    working = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` for a coroutine with clean-up: the first SIGINT or SIGTERM cancels it, and its
    clean-up runs to the end.

    Raises KeyboardInterrupt when it was asked to end, behind its clean-up; the process is expected
    to end then, and hears neither signal any more.
    """
    asked = False

    async def heard() -> Result:
        this = asyncio.current_task()
        assert this is not None, "asyncio.run made it"

        def ask() -> None:
            nonlocal asked
            if not asked:
                asked = True
                click.echo(CLEANING_UP, err=True)
                this.cancel()

        loop = asyncio.get_running_loop()

        def hear(*_: object) -> None:
            loop.call_soon_threadsafe(ask)

        # Also where Ctrl-C is ignored, as shells have it for what they start in the background.
        # Not by the loop's `add_signal_handler`: taking that one away leaves the default for a
        # moment, which ends the process.
        for number in SIGNALS:
            signal.signal(number, hear)
        try:
            return await main
        finally:
            # Asked: what is left is to say so and to end, with one exit code.
            signal.signal(signal.SIGTERM, signal.SIG_IGN if asked else signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN if asked else signal.default_int_handler)

    try:
        return asyncio.run(heard())
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if not asked:
            raise
        click.echo(f"the clean-up failed: {error}", err=True)
        raise KeyboardInterrupt from error
