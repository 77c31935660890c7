"""The event loop and the threads of one simulated process, as the machine's modules use them.

    owned.call_later(s, f) ─► the scheduler ─► f(), unless the process has gone
    owned.in_thread(work, done) ─► a while ─► work() ─► a while ─► done()

A thread's work happens at one instant, somewhere in the time that the thread takes, and waits for a
disk that hangs. Kills and power cuts end it before, in between, or in the middle of a write.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar, cast

from chaos.sim.scheduler import Scheduler
from dledger.errors import DledgerError

T = TypeVar("T")
Action = Callable[[], object]
#: The longest time of each half of a thread's work; drawn by each process.
THREAD_SECONDS = (0.0, 0.02, 0.2, 1.5)
#: Between two looks at a disk that hangs.
LOOK_SECONDS = 0.1


class VirtualFuture:
    """A future without an event loop, of a proposal or of a thread."""

    def __init__(self) -> None:
        self._made, self._error = False, cast("DledgerError | None", None)
        self._then: Callable[[Any], object] | None = None

    def made(self, error: DledgerError | None) -> None:
        """Note that the log accepted the proposal, or refused it with this error."""
        self._made, self._error = True, error
        if self._then is not None:
            self._then(self)

    def set_result(self, _: None) -> None:
        """As of a future."""
        self.made(None)

    def when_done(self, then: Callable[[Any], object]) -> None:
        """Call `then` with this, at once or when it is made."""
        self._then = then
        if self._made:
            then(self)

    def done(self) -> bool:
        """As of a future."""
        return self._made

    def cancelled(self) -> bool:
        """False: a proposal is never taken back."""
        return False

    def exception(self) -> DledgerError | None:
        """The refusal; None: accepted, or not decided yet."""
        return self._error


class VirtualTimer:
    """As a handle of the event loop's."""

    def __init__(self, action: Action) -> None:
        self._action: Action | None = action

    def cancel(self) -> None:
        """Forget the action."""
        self._action = None

    def fire(self) -> None:
        """Call the action, unless it was cancelled."""
        action, self._action = self._action, None
        if action is not None:
            action()


@dataclass(slots=True, eq=False)
class VirtualThread:
    """`worked`: only `done` is left to be called."""

    work: Action
    done: Action
    worked: bool = False


class VirtualOwned:
    """`dledger.runtime.owned.Owned` of one process.

    Attributes:
        spent: seconds that the machine has taken in this turn, beside the scheduler's clock.
        threads: those that are under way.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        in_process: Callable[[Action], None],
        hangs: Callable[[], bool],
    ) -> None:
        """`in_process(action)`: has the process do it, unless it has gone; `hangs`: does its disk
        hang?
        """
        self._scheduler, self._random = scheduler, random
        self._in_process, self._hangs = in_process, hangs
        self._seconds = random.choice(THREAD_SECONDS)
        self.spent = 0.0
        self.threads: list[VirtualThread] = []
        self.loop = types.SimpleNamespace(create_future=VirtualFuture)

    def time(self) -> float:
        """Virtual seconds."""
        return self._scheduler.now + self.spent

    def run(self, callback: Callable[..., object], *args: object) -> None:
        """Call it now."""
        callback(*args)

    def on_own_behalf(self, step: Callable[..., T], *args: object) -> T:
        """Call it now: no request of a client has a guard here."""
        return step(*args)

    def call_soon(self, callback: Callable[..., object], *args: object) -> VirtualTimer:
        """Call it when this event is over."""
        return self.call_later(0.0, callback, *args)

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: object
    ) -> VirtualTimer:
        """Call it in so many seconds, unless the timer is cancelled or the process has gone."""
        timer = VirtualTimer(lambda: callback(*args))
        self._scheduler.after(seconds, lambda _: self._in_process(timer.fire))
        return timer

    def when_done(self, future: VirtualFuture, callback: Callable[[Any], object]) -> None:
        """As of a future."""
        future.when_done(callback)

    def spared(self, what: str, *args: object) -> None:
        """In an `except`: raises the exception again, which ends the run."""
        error = sys.exception()
        assert error is not None, what
        raise error

    # -- threads -----------------------------------------------------------------------------------

    def in_thread(self, work: Action, done: Action) -> None:
        """Call both later, `done` behind `work`."""
        thread = VirtualThread(work, done)
        self.threads.append(thread)
        self._go_on(thread)

    def _go_on(self, thread: VirtualThread) -> None:
        self.call_later(self._random.random() * self._seconds, self._next, thread)

    def _next(self, thread: VirtualThread) -> None:
        if thread not in self.threads:
            return  # `end_threads` has ended it
        if thread.worked:
            self._end(thread)
        elif self._hangs():
            self.call_later(LOOK_SECONDS, self._next, thread)
        else:
            thread.worked = True
            thread.work()
            self._go_on(thread)

    def _end(self, thread: VirtualThread) -> None:
        self.threads.remove(thread)
        thread.done()

    def end_threads(self) -> None:
        """Wait for all of them: the process is being stopped."""
        while self.threads:
            thread = self.threads[0]
            if not thread.worked:
                thread.worked = True
                thread.work()
            self._end(thread)
