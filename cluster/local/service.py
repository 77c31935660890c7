"""The frame of each server process: event loop, signals, parent, log, last words.

Ends with exit code 0 when asked to (SIGTERM, SIGINT, or its parent is gone), else with a code of
`commands/errors.py` and one sentence as the last line of its log, in the format of the log.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, TextIO

from cluster.limits.descriptors import raise_limit
from cluster.limits.memory_limit import small_stacks
from cluster.local import endings, supervisor
from cluster.local.node_log import set_up_log, write_last_words
from cluster.local.parent import when_parent_ends
from commitlog.files.system import is_out_of_space
from commitlog.usage import Arguments
from dledger.runtime.loop import collect_seldom, loop_factory
from dledger.runtime.owned import watch

_log = logging.getLogger("cluster.local")


class Service(Protocol):
    """A server that was started."""

    async def close(self) -> None:
        """Stop in order; everything acknowledged is on disk already."""
        ...

    async def failed(self) -> BaseException:
        """Return when the server cannot go on, with the reason; never while it works."""
        ...


def parser(description: str, program: str | None = None) -> argparse.ArgumentParser:
    """Arguments that all server processes share. `program`: its name in the help."""
    arguments = Arguments(program, description=description)
    arguments.add_argument("--parent-fd", type=int, default=-1, help="end when this pipe closes")
    return arguments


async def _nothing() -> bool:
    """An empty task, for a service without work beside it."""
    return False


def run(
    start: Callable[[], Awaitable[Service]],
    parent_fd: int = -1,
    log: TextIO | None = None,
    beside: Callable[[], Awaitable[bool]] = _nothing,
) -> int:
    """Run a service until it is told to stop; returns the exit code.

    `log`: not standard error. `beside`: done once while the service runs; when it raises, or
    returns True, the service stops.
    """
    if not __debug__:
        sys.stderr.write("assertions are switched off (-O); start Python without -O\n")
        return 2
    try:
        set_up_log(log)
        collect_seldom()
        raise_limit()
        small_stacks()
        with _profiled(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            why = runner.run(_serve(start, parent_fd, beside))
        endings.ended("exit code 0", why)
        return 0
    except Exception as error:
        from cluster.commands.errors import error_id, exit_code_of, is_expected, sentence_of

        expected = is_expected(error)
        text = sentence_of(error) if expected else str(error)
        if isinstance(error, OSError) and is_out_of_space(error):
            text = _full_disk(error)
        _log.error("stopped: %s", text, exc_info=None if expected else error)
        code = exit_code_of(error) if expected else 70
        endings.ended(f"exit code {code}", text, by="itself")
        write_last_words(f"dledger[{error_id(error)}]: {text}" if expected else text)
        return code


def _full_disk(error: OSError) -> str:
    """The sentence for a node that finds no space when it starts; it names the file if known."""
    if error.filename is None:
        return f"{error}: a node writes some small files when it starts; free some space first"
    return f"{error.filename}: {error.strerror}; free space on that disk, then start it again"


@contextlib.contextmanager
def _profiled() -> Iterator[None]:
    """With $DLEDGER_PROFILER_FILES set, leave this process's profile in "<value>.<process id>"."""
    target = os.environ.get("DLEDGER_PROFILER_FILES")
    if not target:
        yield
        return
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(f"{target}.{os.getpid()}")


async def _serve(
    start: Callable[[], Awaitable[Service]],
    parent_fd: int,
    beside: Callable[[], Awaitable[bool]],
) -> str:
    """Serve. Returns the cause of the stop; raises the error that ended the server."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    reasons: list[str] = []

    def asked(why: str) -> None:
        reasons.append(why)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked, f"it was sent {number.name}")
    if parent_fd >= 0:
        when_parent_ends(parent_fd, lambda: asked("the process that started it has ended"))
    unhandled: asyncio.Future[BaseException] = loop.create_future()

    def died(error: BaseException) -> None:
        if not unhandled.done():
            unhandled.set_result(error)

    watch(loop, died)
    service = await start()
    supervisor.tell(supervisor.READY)
    stopping = asyncio.ensure_future(stop.wait())
    failing = asyncio.ensure_future(service.failed())
    working = asyncio.ensure_future(beside())
    try:
        ends: list[asyncio.Future[Any]] = [stopping, failing, unhandled]
        await asyncio.wait([*ends, working], return_when=asyncio.FIRST_COMPLETED)
        if working.done() and not working.result():
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if unhandled.done():
            raise unhandled.result()
        if failing.done():
            raise failing.result()
        why = reasons[0] if reasons else "what it was started for is done"
        _log.info("stopping: %s", why)
        return why
    finally:
        supervisor.tell(supervisor.STOPPING)
        for task in (stopping, failing, working):
            task.cancel()
        await service.close()


async def never() -> BaseException:
    """`failed` of a service that has no way to fail after its start."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable: nobody sets it")
