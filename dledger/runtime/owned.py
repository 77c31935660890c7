"""A node's timers, callbacks and tasks on the event loop. A mistake in one ends the node (R27).

    owned.call_soon(f) ─► the loop ─► f() ─┬─► returns
                                           └─► raises ─► died(error): told in the log, node ends

asyncio itself only logs what a callback raises, and of a task that nobody awaits it may say
nothing: the node would go on half deaf, and those who waited for the rest of that callback would
get no answer. So nothing in a node asks the loop directly (tests/architecture/test_owned.py). What
one client's request raises is caught where that request is served, and counted with `spared`.

`watch` is for the loop of a whole program: what reaches it belongs to no node that is known.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from dledger.errors import NodeFailed
from dledger.runtime.complaints import Complaints

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
#: Runs a step for one client; what the step raises is that client's affair.
Guard = Callable[[Callable[[], object]], None]

#: Begins the log's line of an exception that ended a node, and that of one which ended a request.
#: Judges look for their tracebacks (cluster/local/stories.py).
ENDED = "stopped by a mistake"
SPARED = "a mistake cost one connection"
UNHANDLED = "a mistake that nobody caught"
#: What a callback may raise by mistake. No task runs inside one, so a cancellation there is some
#: other task's, which our code or a user's machine has asked for its result.
MISTAKES = (Exception, asyncio.CancelledError)
_OURS = ("cluster", "commitlog", "dledger")


def tell_end(log: logging.Logger, node_id: str, where: str, error: BaseException) -> None:
    """Log that an exception ended a node: a mistake with its traceback, or a disk's refusal.

    A refusal is a `NodeFailed` that an OSError caused: of the service's files, for instance queues.
    """
    if isinstance(error, NodeFailed) and isinstance(error.__cause__, OSError):
        log.critical("%s: stopped by its disk, as %s", node_id, where)
    else:
        log.critical("%s: %s, as %s", node_id, ENDED, where, exc_info=error)


class Owned:
    """One per node. Used on the event loop's thread, `call_soon_threadsafe` apart."""

    def __init__(self, died: Callable[[BaseException], None]) -> None:
        """`died`: told of the first mistake and of each later one."""
        self.died = died
        #: Mistakes that cost one client's connection and nothing else.
        self.mistakes = 0
        self._guard: Guard | None = None
        self._complaints = Complaints(_log, self.time)

    @functools.cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs when this is first asked."""
        return asyncio.get_running_loop()

    def time(self) -> float:
        """Seconds on the loop's clock."""
        return self.loop.time()

    def run(self, callback: Callable[..., object], *args: object) -> None:
        """Call it now; a mistake in it ends the node."""
        try:
            callback(*args)
        except MISTAKES as error:  # whatever it is, this node cannot go on
            self.died(error)

    def call_soon(self, callback: Callable[..., object], *args: object) -> asyncio.Handle:
        """As the loop's, through `run`."""
        return self.loop.call_soon(self.run, callback, *args)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> None:
        """From another thread. Raises RuntimeError when the loop is closed."""
        assert "loop" in self.__dict__, "the node has run on its loop before"
        self.loop.call_soon_threadsafe(self.run, callback, *args)

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """As the loop's, through `run`; times in seconds."""
        return self.loop.call_later(seconds, self.run, callback, *args)

    def call_at(
        self, at: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """As the loop's, through `run`; `at` is in seconds of the loop's clock."""
        return self.loop.call_at(at, self.run, callback, *args)

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task without a result; an error of it ends the node, a cancellation does not."""
        task = self.loop.create_task(work)
        task.add_done_callback(self._task_ended)
        return task

    def when_done(self, future: asyncio.Future[Any], callback: Callable[[Any], object]) -> None:
        """As `add_done_callback`."""
        future.add_done_callback(lambda done: self.run(callback, done))

    def in_thread(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Call `work` in a thread, then `done` on the loop; a mistake in either ends the node."""

        def worked(future: asyncio.Future[object]) -> None:
            if not future.cancelled():
                future.result()
                done()

        self.when_done(self.loop.run_in_executor(None, work), worked)

    # -- on behalf of one client -----------------------------------------------------------------

    def on_behalf(self, guard: Guard, step: Callable[[], object]) -> None:
        """Run a step of one client's request; `guard` runs callbacks that it leaves for later."""
        before, self._guard = self._guard, guard
        try:
            step()
        finally:
            self._guard = before

    def on_own_behalf(self, step: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Run a step of the node's own, outside the guard of the request that caused it."""
        before, self._guard = self._guard, None
        try:
            return step(*args, **named)
        finally:
            self._guard = before

    def bound(self, callback: Callable[P, None]) -> Callable[P, None]:
        """`callback`, to be called later, under the guard of the present request.

        Code that keeps callbacks of requests uses this; else a mistake in a request's last step
        would be one of the log, whose event was only waited for.
        """
        guard = self._guard
        if guard is None:
            return callback

        def guarded(*args: P.args, **named: P.kwargs) -> None:
            guard(lambda: callback(*args, **named))

        return guarded

    def spared(self, what: str, *args: object) -> None:
        """In an `except`: a mistake while one client's request was read, checked or answered."""
        self.mistakes += 1
        self._complaints.say(
            what, f"{SPARED}: {what}", *args, level=logging.ERROR, error=sys.exception()
        )

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, Exception):
                raise error  # KeyboardInterrupt, SystemExit: the program's
            self.died(error)


def watch(loop: asyncio.AbstractEventLoop, died: Callable[[BaseException], None]) -> None:
    """End the program, by `died`, when a callback of our code raises around `Owned`.

    What a connection's protocol raises has closed that connection, as asyncio does. Mistakes
    outside our code, and sockets that cannot be accepted, are logged as asyncio does it.
    """

    def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        is_connection = "protocol" in context or "transport" in context
        if not isinstance(error, Exception) or not is_ours(error):
            loop.default_exception_handler(context)
        elif is_connection:
            _log.error("%s: %s", SPARED, context.get("message"), exc_info=error)
        else:
            _log.critical("%s: %s", UNHANDLED, context.get("message"), exc_info=error)
            died(error)

    loop.set_exception_handler(handler)


def is_ours(error: BaseException) -> bool:
    """Was it raised in, or beneath, a function of this project?"""
    trace = error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in _OURS:
            return True
        trace = trace.tb_next
    return False
