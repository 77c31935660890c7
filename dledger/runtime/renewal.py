"""Gives a folder new generations, and writes those met of peers (generations.py).

    timer, every RENEW_SECONDS ─► has this node promised anything? ─► thread: write ─► announce
    a peer was met ───────────────────────────────────────────────► thread: write

A generation is on disk before a peer hears of it. A disk that hangs keeps its thread and nothing
else; one that fails is noticed by the log, which has more to say about it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable

from dledger.membership.generations import RENEW_SECONDS, Generations
from dledger.runtime.owned import Owned

_log = logging.getLogger(__name__)


def _in_a_new_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


class Renewal:
    """Runs from `start` to `stop`. `promised`: has there been anything since it was last asked?"""

    def __init__(
        self,
        generations: Generations,
        promised: Callable[[], bool],
        announce: Callable[[], None],
        owned: Owned,
        in_thread: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        """`in_thread`: runs a call in some thread; None: in one that is made for it."""
        self._in_thread = in_thread or _in_a_new_thread
        self._generations = generations
        self._promised, self._announce = promised, announce
        self._owned = owned
        self._timer: asyncio.TimerHandle | None = None
        self._writing = self._again = self._stopped = False

    def start(self) -> None:
        self._generations.changed = self._write
        self._timer = self._owned.call_later(RENEW_SECONDS, self._look)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._owned.call_later(RENEW_SECONDS, self._look)
        if not self._writing and self._promised():
            self._write(1)

    def _write(self, more: int = 0) -> None:
        """Write the file in a thread: the number plus `more`, and the peers' generations."""
        if self._writing:
            self._again = True
            return
        self._writing, self._again = True, False
        number = self._generations.current.number + more
        data = self._generations.capture(number)
        self._in_thread(functools.partial(self._run, data, number))

    def _run(self, data: bytes, number: int) -> None:
        error: Exception | None = None
        try:
            self._generations.write(data)
        except OSError as raised:
            error = raised
        try:  # noqa: SIM105  # as in sync_thread.py
            self._owned.call_soon_threadsafe(self._done, number, error)
        except RuntimeError:  # the loop is closed: nobody wants to know
            pass

    def _done(self, number: int, error: Exception | None) -> None:
        self._writing = False
        if self._stopped:
            return
        if error is not None:
            _log.warning("the file of generations was not written: %s", error)
        elif number > self._generations.current.number:
            self._generations.renewed(number)
            self._announce()
        if self._again:
            self._write()
