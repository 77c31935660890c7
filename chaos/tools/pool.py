"""Work on several processes that ends when it is asked to: by Ctrl-C, by a signal, by a mistake.

`ProcessPoolExecutor` by itself waits for all that was submitted, on its way out, too, and leaves
its processes behind when the parent is killed.

A program of its own that works for this one ends with it, too:

    subprocess.run(command, env=for_a_child(), start_new_session=True)      the parent
    end_with_parent()                                                       the child, first of all
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1
_REQUESTS = (signal.SIGINT, signal.SIGTERM)
_PARENT = "DLEDGER_ENDS_WITH_PROCESS"
_THREAD_SECONDS_MAX = 3.0
_AHEAD = 2  # pieces of work for each process, so that none waits for the parent


def _begin(parent: int) -> None:
    """In each process: Ctrl-C is the parent's to handle, and without a parent there is no work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ask_for_sigterm_when_orphaned()
    if os.getppid() != parent:  # it was killed while this one started, which no signal tells
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _REQUESTS)


@contextlib.contextmanager
def _requests_wait() -> Iterator[None]:
    """Blocks SIGINT and SIGTERM meanwhile; a signal that comes then is delivered afterwards.

    While it forks, Python runs hooks and drops what is raised in them: Ctrl-C, too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _REQUESTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ask_for_sigterm_when_orphaned() -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def for_a_child() -> dict[str, str]:
    """Returns the environment for a child process, with the process that the child has to end
    with.
    """
    return {**os.environ, _PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """Unwind as by Ctrl-C when the parent that gave `for_a_child` is gone, or at SIGTERM.

    Does nothing in a process that somebody started by hand.
    """
    parent = os.environ.pop(_PARENT, "")
    if not parent:
        return
    for number in _REQUESTS:  # the pool's processes pass on that they ignore
        signal.signal(number, signal.default_int_handler)
    _ask_for_sigterm_when_orphaned()
    if os.getppid() != int(parent):  # it ended while this one started
        sys.exit("the command that this works for has ended")


def map_unordered(
    function: Callable[[Work], Result], works: Iterable[Work], jobs: int
) -> Generator[tuple[Work, Result], None, None]:
    """Yields (work, `function(work)`) as the calls end, in `jobs` processes; `works` is read as
    needed.

    Raises what `function` raises. Whatever ends the caller ends the processes.
    """
    pending = iter(works)
    known = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, initializer=_begin, initargs=(os.getpid(),))
    running: dict[Future[Result], Work] = {}
    try:
        while True:  # until nothing is left to begin or to wait for
            for work in pending:
                with _requests_wait():
                    running[pool.submit(function, work)] = work
                if len(running) >= jobs * _AHEAD:
                    break
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BaseException:
        # Its thread is waited for, as far as that helps: one that ends together with the
        # interpreter may print a traceback (a closed pipe in its own clean-up).
        thread = getattr(pool, "_executor_manager_thread", None)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - known:
            process.terminate()
        if thread is not None:
            thread.join(_THREAD_SECONDS_MAX)
        raise
    pool.shutdown()
